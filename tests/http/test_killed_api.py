"""SIGKILL between the commit and the answer: the client repeats its request and gets the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from coatcheck.clock import SystemClock
from coatcheck.errors import StoreUnavailable
from coatcheck.store.sqlite.operations import batches
from tests.http.arrange import StoppedClock, StoredJobs

pytestmark = pytest.mark.anyio


def send_to_a_process_that_dies(database: Path, path: str, body: Any, key: str) -> None:
    command = [sys.executable, "-m", "tests.http.killed_api", str(database)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with pytest.raises(httpx2.TransportError):
            httpx2.post(f"{url}{path}", json=body, headers={"Idempotency-Key": key}, timeout=60)
        assert process.wait(60) == -9


@pytest.mark.parametrize("count", [1, 2, 450], ids=["a job", "a small batch", "a large batch"])
async def test_a_request_that_was_never_answered_is_answered_when_it_is_repeated(
    http: httpx2.AsyncClient,
    stored_jobs: StoredJobs,
    clock: StoppedClock,
    tmp_path: Path,
    count: int,
) -> None:
    clock.milliseconds = SystemClock().now()  # the other process has no other
    path = "/v1/jobs" if count == 1 else "/v1/batches"
    body = {"kind": "echo"} if count == 1 else {"jobs": [{"kind": "echo"}] * count}
    send_to_a_process_that_dies(tmp_path / "jobs.db", path, body, "order-4711")
    made = {job.id for job in await stored_jobs()}
    assert len(made) == count

    for _ in range(2):
        answer = await http.post(path, json=body, headers={"Idempotency-Key": "order-4711"})
        assert answer.status_code == 202
        assert answer.headers["idempotency-replayed"] == "true"
        jobs = [answer.json()] if count == 1 else answer.json()["jobs"]
        assert {job["id"] for job in jobs} == made

    assert {job.id for job in await stored_jobs()} == made


async def test_batches_that_were_cut_off_after_they_were_accepted_are_all_there_for_a_repeat(
    http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"jobs": [{"kind": "echo"}] * 450}

    async def cut_off(*_arguments: Any) -> None:
        raise StoreUnavailable("cut off")

    with monkeypatch.context() as patch:
        patch.setattr(batches, "finish", cut_off)
        for key in ("first", "second"):
            answer = await http.post("/v1/batches", json=body, headers={"Idempotency-Key": key})
            assert answer.status_code == 503

    for key in ("second", "first"):
        answer = await http.post("/v1/batches", json=body, headers={"Idempotency-Key": key})
        assert answer.status_code == 202, answer.text
        assert answer.headers["idempotency-replayed"] == "true"
        assert len(answer.json()["jobs"]) == 450
