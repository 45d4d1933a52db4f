"""A full disk: 503 until there is space, and no job is lost."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import httpx2
import pytest

from tests.cli.processes import running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits a process from outside")


def test_full_disk_returns_503_and_server_recovers(tmp_path: Path, app_reference: str) -> None:
    arguments = ("serve", app_reference, "--port", "0", "--no-worker")
    with (
        running(*arguments, folder=tmp_path) as server,
        httpx2.Client(base_url=server.url(), timeout=30) as http,
    ):
        before = http.post("/v1/jobs", json={"kind": "process_id"})
        assert before.status_code == 202

        _let_files_grow_to(server.pid, 0)
        refused = http.post("/v1/jobs", json={"kind": "process_id"})
        assert refused.status_code == 503
        assert refused.json()["type"] == "urn:coatcheck:store-unavailable"
        assert int(refused.headers["retry-after"]) > 0
        assert http.get("/healthz").status_code == 200
        assert http.get(before.headers["location"]).json() == {**before.json(), "position": 1}

        _let_files_grow_to(server.pid, resource.RLIM_INFINITY)
        after = http.post("/v1/jobs", json={"kind": "process_id"})
        assert after.status_code == 202
        assert http.get(after.headers["location"]).json() == {**after.json(), "position": 2}


def _let_files_grow_to(pid: int, size: int) -> None:
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
