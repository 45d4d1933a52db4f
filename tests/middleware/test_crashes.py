"""Processes that are killed in the middle of a call."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest

from coatcheck.store.sqlite.store import SQLiteStore

from .gate import Gate
from .server import serving

APP = "tests.middleware.apps.fastapi_app:app"
ANNA = {"Authorization": "Bearer anna"}
LATER = {"Prefer": "respond-async"}
PATIENT = {"Prefer": "wait=30"}


def test_call_survives_a_killed_process(tmp_path: Path, gate: Gate) -> None:
    with serving(APP, tmp_path, gate) as server:
        accepted = server.ask("POST", "/slow", headers=ANNA, json={"pages": 3})
        assert accepted.status_code == 202
        where = accepted.headers["Location"]
        assert gate.arrival().says.startswith("slow 1 ")
        server.kill()
        server.start()
        arrival = gate.arrival()
        assert arrival.says == f"slow 2 {server.pid}"
        arrival.let_go()
        answer = server.ask("GET", f"{where}/result?wait=30", headers=ANNA)
        assert answer.status_code == 201
        assert answer.json() == {"user": "anna", "order": {"pages": 3}, "attempt": 2}
        assert (tmp_path / "notes").read_text().count("slow is done") == 1


def test_recorded_step_does_not_run_again(tmp_path: Path, gate: Gate) -> None:
    with serving(APP, tmp_path, gate) as server:
        accepted = server.ask("POST", "/steps", headers=ANNA | LATER)
        assert gate.arrival().says == "steps 1"
        server.kill()
        server.start()
        arrival = gate.arrival()
        assert arrival.says == "steps 2"
        arrival.let_go()
        where = accepted.headers["Location"]
        assert server.ask("GET", f"{where}/result?wait=30", headers=ANNA).json() == [3, 1]
        assert (tmp_path / "notes").read_text().count("draw") == 1
        [step] = server.ask("GET", f"{where}/steps", headers=ANNA).json()["steps"]
        assert (step["name"], step["result"]) == ("draw", [3, 1])


def test_unrepeatable_call_fails_after_a_crash(tmp_path: Path, gate: Gate) -> None:
    with serving(APP, tmp_path, gate, TEST_ONCE="1") as server:
        accepted = server.ask("POST", "/slow", headers=ANNA | LATER, json={})
        gate.arrival()
        server.kill()
        server.start()
        where = accepted.headers["Location"]
        job = server.ask("GET", f"{where}?wait=30", headers=ANNA).json()
        assert (job["state"], job["reason"]) == ("failed", "lost")


def test_stopping_server_releases_its_jobs(tmp_path: Path, gate: Gate) -> None:
    with serving(APP, tmp_path, gate, COATCHECK_DRAIN_S="0") as server:
        accepted = server.ask("POST", "/slow", headers=ANNA | LATER, json={})
        arrival = gate.arrival()
        server.stop()
        arrival.wait_until_gone()
        notes = (tmp_path / "notes").read_text().split("\n")
        assert notes == ["up", "slow was cancelled", "down", ""]  # the app stops last
        server.start()
        arrival = gate.arrival()
        assert arrival.says == f"slow 1 {server.pid}"  # no attempt was used
        arrival.let_go()
        where = accepted.headers["Location"]
        assert server.ask("GET", f"{where}/result?wait=30", headers=ANNA).status_code == 201


def test_two_processes_share_one_database(tmp_path: Path, gate: Gate) -> None:
    one_at_a_time = {"COATCHECK_CONCURRENCY": "1", "TEST_WAIT": "30s"}
    with (
        serving(APP, tmp_path, gate, **one_at_a_time) as first,
        serving(APP, tmp_path, gate, **one_at_a_time) as second,
    ):
        taken = {}
        jobs = []
        for _ in range(2):  # each has one now
            jobs.append(first.ask("POST", "/slow", headers=ANNA | LATER, json={}))
            arrival = gate.arrival()
            taken[int(arrival.says.split()[2])] = arrival
        assert taken.keys() == {first.pid, second.pid}
        taken[second.pid].let_go()
        # The first is busy: the second makes this call, and its chunks are streamed here.
        asked = httpx2.stream("POST", f"{first.url}/stream", headers=ANNA | PATIENT, timeout=60.0)
        with asked as answer:
            pieces = answer.iter_raw()
            assert next(pieces) == b"first\n"
            gate.arrival().let_go()
            assert b"".join(pieces) == b"last\n"
        taken[first.pid].let_go()
        for job in jobs:
            for server in (first, second):
                where = f"{job.headers['Location']}/result?wait=30"
                assert server.ask("GET", where, headers=ANNA).status_code == 201


@pytest.mark.anyio
async def test_endpoint_that_blocks_the_loop_keeps_its_lease(tmp_path: Path, gate: Gate) -> None:
    with serving(APP, tmp_path, gate, COATCHECK_LEASE_S="1") as server:
        asking = asyncio.to_thread(server.ask, "POST", "/blocking", headers=ANNA | LATER)
        asked = asyncio.create_task(asking)
        arrival = await asyncio.to_thread(gate.arrival)
        store = SQLiteStore(tmp_path / "jobs.db")
        await store.open()

        async def beats() -> int:
            [worker] = await store.workers.list_workers()
            return worker.info.beats

        enough = await beats() + 5  # more than fit into a lease
        # The server is blocked, and the worker is alive.
        while await beats() < enough:  # noqa: ASYNC110 - it is another process that goes on
            await asyncio.sleep(0.05)
        await store.close()
        arrival.let_go()
        where = (await asked).headers["Location"]
        answer = await asyncio.to_thread(server.ask, "GET", f"{where}/result?wait=30", headers=ANNA)
        assert answer.json() == "done"
