"""The whole life of jobs and documents, one verb after the other: what any role must be able to."""

from __future__ import annotations

from coatcheck.errors import Gone
from coatcheck.model.event import EventType, NewJobEvent
from coatcheck.model.job import Failure, Progress, Terms
from coatcheck.model.outcome import Errored, Succeeded
from coatcheck.model.record import Record
from coatcheck.model.state import State
from coatcheck.store.base import Report, Settlement, Store
from coatcheck.testing.conformance.arrange import (
    NOW,
    OTHER_WORKER,
    TENANT,
    WORKER,
    everything,
    new_job,
    worker_info,
)

DAY = 86_400_000


async def live(store: Store) -> None:
    """Use every verb on an empty store, and check that it does what it should."""
    await store.ping()
    await _work(store)
    await _lose_a_worker(store)
    await _stop_and_clear_away(store)
    await _keep_documents(store)


async def _work(store: Store) -> None:
    await store.workers.register_worker(worker_info(WORKER))
    single = new_job(public_id="r_1")
    batch = [new_job() for _ in range(20)]
    later = new_job(run_at=NOW + 1_000)
    await store.jobs.submit(single, NOW)
    await store.jobs.submit_batch([*batch, later], NOW)
    claimed = await store.workers.claim(WORKER, ["mail"], 100, NOW)
    assert [claim.lease.job_id for claim in claimed.claims] == [
        single.id,
        *(job.id for job in batch),
    ]
    assert claimed.next_due == NOW + 1_000
    assert await store.workers.heartbeat(WORKER)
    first = claimed.claims[0].lease
    said = Report(Progress(1, 2, "half"), "loading", (NewJobEvent(EventType.LOG, "{}"),))
    assert await store.workers.report(first, said, NOW)
    assert (
        await store.workers.settle(
            [Settlement(claim.lease, Succeeded('"done"')) for claim in claimed.claims], NOW
        )
        == [True] * 21
    )
    job = await store.jobs.get(TENANT, "r_1")
    assert (job.id, job.state, job.result) == (single.id, State.SUCCEEDED, '"done"')
    assert len(await store.jobs.list_events(TENANT, single.id, 0, 100)) == 5
    assert len(await store.jobs.get_many([(TENANT, job.id) for job in batch])) == 20
    [promoted] = (await store.workers.claim(WORKER, ["mail"], 100, NOW + 1_000)).claims
    failed = Errored(Failure("boom", "once"), retry_after_ms=0)
    assert await store.workers.settle([Settlement(promoted.lease, failed)], NOW + 1_000) == [True]
    assert await store.workers.settle(
        [Settlement(promoted.lease._replace(fence=99), failed)], NOW
    ) == [False]


async def _lose_a_worker(store: Store) -> None:
    await store.workers.register_worker(worker_info(OTHER_WORKER))
    [again] = (await store.workers.claim(OTHER_WORKER, ["mail"], 100, NOW + 2_000)).claims
    assert [held.lease for held in await store.workers.list_held_jobs(OTHER_WORKER)] == [
        again.lease
    ]
    assert len(await store.workers.list_workers()) == 2
    assert await store.workers.remove_worker(OTHER_WORKER, 0, NOW + 2_000) == 1
    assert (await store.jobs.cancel(TENANT, again.lease.job_id, NOW)).state is State.CANCELLED


async def _stop_and_clear_away(store: Store) -> None:
    await store.jobs.submit(new_job(terms=Terms(deadline_at=NOW + 5)), NOW)
    await store.queues.pause_queue("default", True, NOW)
    assert [queue.paused for queue in await store.queues.list_queues()] == [True]
    assert (await store.workers.claim(WORKER, ["mail"], 100, NOW)).claims == []
    await store.queues.pause_queue("default", False, NOW)
    assert (await store.maintenance.sweep(NOW + 5)).expired == 1
    jobs = await everything(store)
    swept = await store.maintenance.sweep(NOW + 30 * DAY)
    assert swept.deleted == len(jobs) == 23
    assert await everything(store) == []
    try:
        await store.jobs.get(TENANT, jobs[0].id)
    except Gone:
        pass
    else:
        raise AssertionError("a job that was deleted is still there")
    await store.maintenance.sweep(NOW + 60 * DAY)  # the tombstones too
    assert await store.workers.remove_worker(WORKER, None, NOW) == 0
    assert (await store.maintenance.read_counters())["stale_writes"] == 1


async def _keep_documents(store: Store) -> None:
    document = Record(TENANT, "notes", "a", "1", 0, NOW, NOW + DAY)
    written = await store.records.put_record(document, 0)
    assert written is not None
    assert await store.records.put_record(document, 0) is None
    assert await store.records.get_record(TENANT, "notes", "a", NOW) == written
    assert await store.records.list_records(TENANT, "notes", NOW) == [written]
    assert await store.records.delete_record(TENANT, "notes", "a")
    await store.records.put_record(document)
    await store.maintenance.sweep(NOW + 2 * DAY)
