"""A request that changes who may call is answered, however long it took."""

from __future__ import annotations

import httpx2
import pytest

from coatcheck.engine import confirmation
from coatcheck.engine.engine import Engine
from coatcheck.store.sqlite.store import SQLiteStore
from tests.http.arrange import StoppedClock
from tests.http.kinds import Gate, declare_kinds

pytestmark = pytest.mark.anyio


@pytest.fixture
def engine(store: SQLiteStore, gate: Gate, clock: StoppedClock) -> Engine:
    return Engine(store, declare_kinds(gate).kinds, clock, pepper=lambda: b"a pepper for tests")


async def test_the_request_that_makes_the_first_key_is_answered(
    http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirmation, "FRESH_S", 0.0)
    made = await http.post("/v1/keys", json={"scopes": ["admin"]})
    assert made.status_code == 201
    assert (await http.get("/v1/jobs")).status_code == 401


async def test_a_key_that_revokes_itself_is_answered(
    http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = (await http.post("/v1/keys", json={"scopes": ["admin"]})).json()
    monkeypatch.setattr(confirmation, "FRESH_S", 0.0)
    headers = {"Authorization": f"Bearer {made['key']}"}
    revoked = await http.delete(f"/v1/keys/{made['id']}", headers=headers)
    assert (revoked.status_code, revoked.json()["revoked_at"] is not None) == (200, True)
    assert (await http.get("/v1/jobs", headers=headers)).status_code == 401
