"""Connections cannot take every file descriptor of a server: measured on a real process."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from coatcheck.descriptors import DescriptorBudget
from tests.cli.processes import Running, run_to_end
from tests.hardening.conftest import APP, running_after

SOFT, HARD = 128, 512
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")


@pytest.fixture
def few(tmp_path: Path) -> Iterator[Running]:
    """A server whose hard limit is low, and whose soft limit is lower."""
    limited = f"ulimit -Sn {SOFT}; ulimit -Hn {HARD}"
    with running_after(
        limited, "serve", APP, "--port", "0", "--no-worker", folder=tmp_path
    ) as server:
        yield server


def test_idle_connections_leave_a_reserve(few: Running) -> None:
    url = few.url()
    limits = Path(f"/proc/{few.process.pid}/limits").read_text()
    [line] = [line for line in limits.splitlines() if line.startswith("Max open files")]
    assert line.split()[3] == str(HARD), "the soft limit was raised"
    where = urlsplit(url)
    with contextlib.ExitStack() as opened, httpx2.Client(base_url=url, timeout=30) as known:
        assert known.get("/healthz").status_code == 200
        for _ in range(HARD):
            with contextlib.suppress(ConnectionError):
                opened.enter_context(socket.create_connection((where.hostname, where.port), 30))

        # The first connection still gets all it needs, including files.
        job = known.post("/v1/jobs", json={"kind": "echo", "input": 1})
        assert job.status_code == 202, job.text
        uploaded = known.post("/v1/uploads", content=b"x" * 3_000_000)
        assert uploaded.status_code == 201, uploaded.text
        taken = len(list(Path(f"/proc/{few.process.pid}/fd").iterdir()))
        assert taken < HARD - DescriptorBudget(HARD).reserve


@pytest.mark.parametrize(
    ("limit", "reserve", "connections", "per_tenant"),
    [
        (256, 64, 96, 48),
        (1024, 128, 448, 224),
        (20_000, 1024, 9488, 4744),
        (65_536, 1024, 32_256, 10_000),
    ],
)
def test_how_descriptors_are_divided(
    limit: int, reserve: int, connections: int, per_tenant: int
) -> None:
    budget = DescriptorBudget(limit)
    assert (budget.reserve, budget.connections, budget.per_tenant) == (
        reserve,
        connections,
        per_tenant,
    )
    assert 2 * budget.connections + budget.reserve <= limit


def test_the_doctor_reports_descriptor_limits(tmp_path: Path) -> None:
    found = json.loads(run_to_end("doctor", "--json", folder=tmp_path).stdout)
    descriptors, tenants = (check for check in found["checks"] if check["area"] == "limits")
    assert "file descriptors: " in descriptors["message"]
    assert "in reserve" in descriptors["message"]
    assert "open requests, 32 uploads" in tenants["message"]
