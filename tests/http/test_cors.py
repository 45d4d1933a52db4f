"""Web pages of other origins: those that the operator names may call the API."""

from __future__ import annotations

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.settings import Settings
from coatcheck.store.sqlite.store import SQLiteStore
from tests.http.arrange import connect
from tests.http.kinds import Gate, declare_kinds

pytestmark = pytest.mark.anyio

PAGE = "https://app.example"


@pytest.mark.parametrize("origin", [PAGE, "https://evil.example"])
async def test_pages_of_the_origins_named_may_ask_and_read(
    store: SQLiteStore, gate: Gate, origin: str
) -> None:
    engine = Engine(store, declare_kinds(gate).kinds, pepper=lambda: b"a pepper for tests")
    _, key = await engine.authenticator.create_key("acme", ["jobs:write"])
    origins = Settings(cors_origins=f"{PAGE}, https://other.example").origins
    async with connect(create_http_app(engine, origins)) as http:
        asked = await http.options(
            "/v1/jobs",
            headers={
                "Origin": origin,
                "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization, content-type",
            },
        )
        headers = {"Origin": origin, "Authorization": f"Bearer {key}"}
        answer = await http.post("/v1/jobs", json={"kind": "echo"}, headers=headers)
        refused = await http.post("/v1/jobs", json={"kind": "echo"}, headers={"Origin": origin})

    assert (asked.status_code == 200) is (origin == PAGE)
    assert answer.status_code == 202
    for each in (answer, refused):
        assert each.headers.get("access-control-allow-origin") == (PAGE if origin == PAGE else None)
    assert refused.status_code == 401, "a page reads why, too"


async def test_without_any_no_page_may_read(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/v1/jobs", headers={"Origin": "http://localhost:3000"})
    assert "access-control-allow-origin" not in answer.headers
