"""A wrapped app on two servers with one PostgreSQL: one takes up what the other has lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.middleware.gate import Gate
from tests.middleware.server import serving

APP = "tests.middleware.apps.fastapi_app:app"
ANNA = {"Authorization": "Bearer anna"}


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.close()


def test_a_call_survives_its_machine(tmp_path: Path, dsn: str, schema: str, gate: Gate) -> None:
    settings = {
        "COATCHECK_DATABASE": dsn,
        "COATCHECK_SCHEMA": schema,
        "COATCHECK_BLOBS": f"file://{tmp_path}/blobs",
        "COATCHECK_PEPPER": "one that both servers have",
        "COATCHECK_LEASE_S": "1",
        "COATCHECK_SWEEP_S": "0.2",
    }
    with (
        serving(APP, tmp_path, gate, **settings) as first,
        serving(APP, tmp_path, gate, **settings) as second,
    ):
        accepted = first.ask("POST", "/slow", headers=ANNA, json={"pages": 3})
        assert accepted.status_code == 202
        servers = {str(each.pid): each for each in (first, second)}
        [lost, other] = [servers.pop(gate.arrival().says.split()[2]), *servers.values()]
        lost.kill()
        arrival = gate.arrival()
        assert arrival.says == f"slow 2 {other.pid}"
        arrival.let_go()
        where = f"{accepted.headers['Location']}/result?wait=30"
        answer = other.ask("GET", where, headers=ANNA)
        assert answer.json() == {"user": "anna", "order": {"pages": 3}, "attempt": 2}
