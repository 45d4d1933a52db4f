"""Jobs in every state before a backup, and their outcomes on the copy."""

from __future__ import annotations

import asyncio
import shutil
from datetime import UTC, datetime, timedelta

from coatcheck import JobHandle
from coatcheck.model.state import Reason, State
from coatcheck.testing.checker import EffectLog, RunRecord, Submit, check, read_records
from tests.faults.place import Place
from tests.faults.server import Server

Jobs = dict[str, list[JobHandle]]
EACH = 3
PAUSED = "paused"


def put_in(server: Server) -> Jobs:
    """Submit jobs, and return when they have ended, run, wait, are tried again, and are due later.

    All but those that ended stay so until the gate of the server is opened.
    """
    client = server.client
    client.pause(PAUSED)
    later = datetime.now(UTC) + timedelta(seconds=5)
    jobs = {
        "ended": [client.submit("quick", n) for n in range(EACH)],
        "delayed": [client.submit("quick", n, run_at=later) for n in range(EACH)],
        "queued": [client.submit("quick", n, queue=PAUSED) for n in range(EACH)],
        "retrying": [client.submit("until_open", n) for n in range(EACH)],
        "waiting": [client.submit("errand", n) for n in range(EACH)],
        "running": [client.submit("held", n) for n in range(EACH)],
    }
    for handle in jobs["ended"]:
        client.wait(handle.id)
    # Each look is a request: it waits for the server, not for time.
    for handle in jobs["running"]:
        while handle.refresh()["progress"] is None:
            pass
    for handle in jobs["retrying"]:
        while handle.refresh()["attempt"] < 2:
            pass
    for handle in jobs["waiting"]:  # first for a job of its own, then for the event
        while all(step["name"] != "go" for step in handle.steps()):
            assert not State(handle.refresh()["state"]).is_terminal
        while handle.refresh()["state"] != "waiting":
            pass
    return jobs


def take_effects(here: Place, there: Place) -> None:
    """Have what handlers did up to now belong to a copy that is taken next.

    What they do from then on is of another life, which the copy knows nothing of.
    """
    shutil.copy(here.folder / "effects", there.folder / "effects")


def finish(place: Place, jobs: Jobs, late: str) -> None:
    """Start a server on a copy, in which every job ends; `late` was not there when it was taken."""
    asyncio.run(_look(place, jobs, late))
    with Server(place) as server:
        server.open_gate()
        server.client.resume(PAUSED)
        for handle in jobs["waiting"]:
            server.client.send(handle.id, "go", True)
        for name, handles in jobs.items():
            for handle in handles:
                assert server.client.wait(handle.id)["state"] == "succeeded", name
        assert server.terminate() == 0
    asyncio.run(_check(place, jobs, late))


async def _look(place: Place, jobs: Jobs, late: str) -> None:
    """See that the copy has every job as it was."""
    store = place.store()
    await store.open()
    records = await read_records(store, [Submit(handle.id) for handle in jobs["ended"]])
    await store.close()
    found = {record.id: record.job for record in records}
    assert late not in found
    states = {name: {found[each.id].state for each in of} for name, of in jobs.items()}  # type: ignore[union-attr]  # they are there
    assert states["ended"] == {State.SUCCEEDED}
    assert states["queued"] == {State.QUEUED}
    assert states["waiting"] == {State.WAITING}
    assert states["running"] == {State.RUNNING}
    for handle in jobs["retrying"]:
        job = found[handle.id]
        assert job is not None
        assert job.state is State.RUNNING or job.reason in (Reason.RETRY, None)


async def _check(place: Place, jobs: Jobs, late: str) -> None:
    submits = [Submit(handle.id) for handles in jobs.values() for handle in handles]
    store = place.store()
    await store.open()
    records = await read_records(store, submits)
    await store.close()
    assert late not in {record.id for record in records}
    check(RunRecord(submits, records, effects=EffectLog(place.folder / "effects").read()))
