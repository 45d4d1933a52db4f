"""SIGKILL of the worker, the API, both, and the supervisor, with jobs in every state.

No accepted job is lost, and each job finishes exactly once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from coatcheck import JobHandle
from coatcheck.testing.checker import EffectLog, RunRecord, Submit, check, read_records

from .frozen_processes import is_being_written, stands_still
from .place import Place
from .server import Server, wait_until_gone

EACH = 5


def submit_jobs_in_every_state(server: Server) -> dict[str, list[JobHandle]]:
    """Submit jobs and return once some of them run, wait, have ended, are due later."""
    client = server.client
    later = datetime.now(UTC) + timedelta(seconds=2)
    much_later = later + timedelta(hours=1)
    jobs = {
        "ended": [client.submit("quick", n) for n in range(EACH)],
        "failed": [client.submit("hopeless", n) for n in range(EACH)],
    }
    for handle in [*jobs["ended"], *jobs["failed"]]:
        client.wait(handle.id)
    jobs |= {
        "running": [client.submit("held", n) for n in range(EACH)],
        "running once": [client.submit("held_once", n) for n in range(EACH)],
    }
    for handle in [*jobs["running"], *jobs["running once"]]:
        while handle.refresh()["progress"] is None:
            pass  # each look is a request: it waits for the server, not for time
    jobs |= {
        "retrying": [client.submit("second_try", n) for n in range(EACH)],
        "delayed": [client.submit("quick", n, run_at=later) for n in range(EACH)],
        "cancelled": [client.submit("quick", n, run_at=much_later) for n in range(EACH)],
        "queued": [client.submit("quick", n) for n in range(50)],
    }
    for handle in jobs["cancelled"]:
        handle.cancel()
    return jobs


EXPECTED = {
    "ended": "succeeded",
    "failed": "failed",
    "running": "succeeded",
    "running once": "failed",
    "retrying": "succeeded",
    "delayed": "succeeded",
    "cancelled": "cancelled",
    "queued": "succeeded",
}


def check_that_each_ended_once(server: Server, jobs: dict[str, list[JobHandle]]) -> None:
    """Wait for every job, then read what the database itself says of each."""
    for name, handles in jobs.items():
        for handle in handles:
            job = server.client.wait(handle.id)
            # A job with on_lost="fail" only fails if its worker was the one that died.
            allowed = {EXPECTED[name], "succeeded"} if name == "running once" else {EXPECTED[name]}
            assert job["state"] in allowed, (name, job)
    run = check_promises(server.place, [each for handles in jobs.values() for each in handles])
    assert run.effects is not None
    began = {effect.job_id for effect in run.effects}
    for name, handles in jobs.items():
        for handle in handles:
            assert (handle.id in began) == (name != "cancelled"), (name, handle)


def check_promises(place: Place, handles: Sequence[JobHandle]) -> RunRecord:
    """Check all that the store and the handlers say of jobs that have ended."""
    run = asyncio.run(_run(place, [Submit(handle.id) for handle in handles]))
    check(run)
    return run


async def _run(place: Place, submits: list[Submit]) -> RunRecord:
    store = place.store()
    await store.open()
    try:
        records = await read_records(store, submits)
    finally:
        await store.close()
    return RunRecord(submits, records, effects=EffectLog(place.folder / "effects").read())


# I01, R16, R17: queued and in-flight work survives; what was in flight is run again.
def test_the_worker_is_killed(place: Place) -> None:
    with Server(place) as server:
        worker = server.child("worker")
        jobs = submit_jobs_in_every_state(server)
        os.kill(worker, signal.SIGKILL)
        assert server.child("worker") != worker
        server.open_gate()
        check_that_each_ended_once(server, jobs)
        for handle in jobs["running"]:
            assert handle.refresh()["attempt"] == 2
        for handle in jobs["running once"]:
            assert (handle.refresh()["state"], handle.job["reason"]) == ("failed", "lost")
        assert server.terminate() == 0


def test_the_api_is_killed(place: Place) -> None:
    with Server(place) as server:
        api = server.child("api")
        jobs = submit_jobs_in_every_state(server)
        os.kill(api, signal.SIGKILL)
        # Requests made now wait in the listening socket's queue for the next API process.
        server.open_gate()
        check_that_each_ended_once(server, jobs)
        for handle in [*jobs["running"], *jobs["running once"]]:
            assert handle.refresh()["attempt"] == 1, "the worker was not touched"
        assert server.terminate() == 0


def test_both_are_killed_at_once(place: Place) -> None:
    with Server(place) as server:
        api, worker = server.child("api"), server.child("worker")
        jobs = submit_jobs_in_every_state(server)
        os.kill(worker, signal.SIGKILL)
        os.kill(api, signal.SIGKILL)
        server.open_gate()
        check_that_each_ended_once(server, jobs)
        assert server.terminate() == 0


def test_killing_the_supervisor_ends_both(place: Place) -> None:
    with Server(place) as server:
        api, worker = server.child("api"), server.child("worker")
        jobs = submit_jobs_in_every_state(server)
        server.process.kill()
        server.process.wait()
        wait_until_gone(api, worker)
    with Server(place) as server:
        server.open_gate()
        check_that_each_ended_once(server, jobs)
        assert server.terminate() == 0


@pytest.mark.parametrize("mode", [(), ("--in-process",)], ids=["supervised", "in-process"])
def test_a_graceful_stop_releases_running_jobs_without_using_an_attempt(
    place: Place, mode: tuple[str, ...]
) -> None:
    with Server(place, *mode, drain_s="0.1") as server:
        handle = server.client.submit("held", 1)
        while handle.refresh()["progress"] is None:
            pass
        assert server.terminate() == 0
    with Server(place, *mode) as server:
        server.open_gate()
        job = server.client.wait(handle.id)
        assert (job["state"], job["attempt"], job["result"]["n"]) == ("succeeded", 1, 1)
        check_promises(place, [handle])
        assert server.terminate() == 0


def stop_outside_a_write(place: Place, pid: int) -> None:
    """Freeze a process at a moment when it does not hold the file everybody writes to."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        while not stands_still(pid):
            time.sleep(0.001)  # the kernel tells nobody
        if not is_being_written(place):
            return
        os.kill(pid, signal.SIGCONT)


def test_late_writes_of_a_frozen_worker_change_nothing(place: Place) -> None:
    with Server(place, lease_s="2") as server:
        worker = server.child("worker")
        handle = server.client.submit("held", 1)
        while handle.refresh()["progress"] is None:
            pass
        stop_outside_a_write(place, worker)
        try:
            server.wait_for_log("worker lost", known_dead=False)
            job = handle.refresh()
            assert (job["state"], job["reason"]) == ("queued", "lost")
        finally:
            os.kill(worker, signal.SIGCONT)
        server.open_gate()
        job = server.client.wait(handle.id)
        assert job["state"] == "succeeded"
        assert job["attempt"] >= 2
        check_promises(place, [handle])
        assert server.terminate() == 0
