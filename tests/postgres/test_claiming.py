"""The claim's rule in SQL is that of the model, and a settle never trusts what has changed."""

from __future__ import annotations

from typing import Any

import pytest

from coatcheck.model import transition as rules
from coatcheck.model.event import EventType, NewJobEvent
from coatcheck.model.job import DEFAULT_TENANT, Job, Lease, Progress
from coatcheck.model.outcome import Errored, Outcome, Released, Succeeded, Waiting
from coatcheck.model.state import State
from coatcheck.model.transition import JobStatus
from coatcheck.store.base import JobFilter, Report, Settlement
from coatcheck.store.postgres.operations import jobs as job_operations
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.testing.conformance.arrange import BOOM, NOW, WORKER, new_job, worker_info

pytestmark = pytest.mark.anyio

JOBS = JobFilter(DEFAULT_TENANT)


@pytest.fixture(autouse=True)
async def worker(store: PostgresStore) -> None:
    await store.workers.register_worker(worker_info(WORKER))


def status_of(job: Job, *, claimable: bool) -> JobStatus:
    fields = {name: getattr(job, name) for name in JobStatus._fields if name != "claimable"}
    return JobStatus(**fields, claimable=claimable)


async def claim_one(store: PostgresStore, now: int = NOW) -> Lease:
    [claim] = (await store.workers.claim(WORKER, ["mail"], 1, now)).claims
    return claim.lease


@pytest.mark.parametrize(
    "before", [None, Errored(BOOM, 0), Released(0), Released(0, BOOM), Released(50)]
)
async def test_what_a_claim_makes_of_a_job_is_what_the_model_says(
    store: PostgresStore, before: Outcome | None
) -> None:
    await store.jobs.submit(new_job(), NOW)
    if before is not None:
        lease = await claim_one(store)
        await store.workers.report(lease, Report(phase="loading"), NOW)
        await store.workers.settle([Settlement(lease, before)], NOW)
    [queued] = await store.jobs.list_jobs(JOBS)
    lease = await claim_one(store, NOW + 100)
    [running] = await store.jobs.list_jobs(JOBS)
    expected = rules.claimed(status_of(queued, claimable=True), WORKER, NOW + 100)
    assert status_of(running, claimable=False) == expected.status
    assert lease.fence == expected.status.fence
    *_, event = await store.jobs.list_events(DEFAULT_TENANT, running.id, 0, 100)
    assert (event.seq, event.type, event.at, event.data) == (
        expected.status.last_event,
        EventType.STATE,
        NOW + 100,
        expected.event,
    )


@pytest.mark.parametrize("before", [None, Errored(BOOM, 0), Released(0, BOOM)])
@pytest.mark.parametrize("said", [None, Report(Progress(1, 2), "loading")])
async def test_what_a_success_makes_of_a_job_is_what_the_model_says(
    store: PostgresStore, before: Outcome | None, said: Report | None
) -> None:
    fresh = [new_job(public_id="one"), new_job(tenant="another"), new_job()]
    await store.jobs.submit_batch([fresh[0], fresh[1]], NOW)
    if before is not None:
        await store.workers.settle([Settlement(await claim_one(store), before)], NOW)
    await store.jobs.submit(fresh[2], NOW)
    leases = [await claim_one(store, NOW + 50) for _ in fresh]
    if said is not None:
        assert await store.workers.report(leases[0], said, NOW + 60)
    running = [await store.jobs.get(lease.tenant, lease.job_id) for lease in leases]
    results = ["1", "[2]", "1"]
    ends = [
        Settlement(lease, Succeeded(result)) for lease, result in zip(leases, results, strict=True)
    ]
    assert await store.workers.settle(ends, NOW + 100) == [True] * 3
    for job, result in zip(running, results, strict=True):
        ended = await store.jobs.get(job.tenant, job.id)
        status = status_of(job, claimable=False)
        expected = rules.settled(status, job.terms, Succeeded(result), NOW + 100)
        assert status_of(ended, claimable=False) == expected.status
        assert (ended.result, ended.progress) == (result, job.progress)
        *_, event = await store.jobs.list_events(job.tenant, job.id, 0, 100)
        assert (event.seq, event.type, event.at, event.data) == (
            expected.status.last_event,
            EventType.STATE,
            NOW + 100,
            expected.event,
        )


EVENTS = "SELECT seq FROM coatcheck.events ORDER BY seq"


async def rows_of_events(store: PostgresStore) -> list[int]:
    """Return the numbers of the events that have a row."""
    text = EVENTS.replace("coatcheck.", f'"{store._sql.schema}".')
    return [row[0] for row in await store._database.fetch(text)]


async def test_a_job_that_succeeds_tells_of_itself_without_a_row_for_each_event(
    store: PostgresStore,
) -> None:
    await store.jobs.submit(new_job(), NOW)
    lease = await claim_one(store, NOW + 50)
    assert await store.workers.settle([Settlement(lease, Succeeded("1"))], NOW + 100) == [True]
    assert await rows_of_events(store) == []
    told = await store.jobs.list_events(DEFAULT_TENANT, lease.job_id, 0, 100)
    assert [(event.seq, event.at) for event in told] == [(1, NOW), (2, NOW + 50), (3, NOW + 100)]
    assert await store.jobs.list_events(DEFAULT_TENANT, lease.job_id, 1, 1) == told[1:2]
    assert (await store.jobs.delete(DEFAULT_TENANT, lease.job_id, NOW)).events == 3
    assert await store.jobs.list_events(DEFAULT_TENANT, lease.job_id, 0, 100) == []


@pytest.mark.parametrize("end", [Errored(BOOM, 0), Released(0), Waiting(NOW), None])
async def test_what_a_claim_told_is_kept_when_the_job_leaves_its_worker(
    store: PostgresStore, end: Outcome | None
) -> None:
    await store.jobs.submit(new_job(), NOW)
    lease = await claim_one(store, NOW + 50)
    before = await store.jobs.list_events(DEFAULT_TENANT, lease.job_id, 0, 100)
    if end is None:
        await store.workers.remove_worker(WORKER, None, NOW + 60)
        await store.workers.register_worker(worker_info(WORKER))
    else:
        await store.workers.settle([Settlement(lease, end)], NOW + 60)
    assert await rows_of_events(store) != []
    assert (await store.jobs.list_events(DEFAULT_TENANT, lease.job_id, 0, 100))[:2] == before
    again = await claim_one(store, NOW + 100)
    assert await store.workers.settle([Settlement(again, Succeeded("1"))], NOW + 200) == [True]
    log = await store.jobs.list_events(DEFAULT_TENANT, lease.job_id, 0, 100)
    assert log[:2] == before
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    assert [event.at for event in log[-2:]] == [NOW + 100, NOW + 200]


async def test_a_success_sees_a_cancel_that_came_after_the_claim(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.jobs.submit_batch([new_job(), new_job()], NOW)
    leases = [await claim_one(store), await claim_one(store)]
    await store.jobs.cancel(DEFAULT_TENANT, leases[1].job_id, NOW)
    ends = [Settlement(lease, Succeeded("1")) for lease in leases]
    careful = []
    settle = job_operations.settle

    async def carefully(*arguments: Any) -> Any:
        careful.append(True)
        return await settle(*arguments)

    monkeypatch.setattr(job_operations, "settle", carefully)
    assert await store.workers.settle(ends, NOW) == [True, True]
    assert careful
    for lease in leases:
        events = await store.jobs.list_events(DEFAULT_TENANT, lease.job_id, 0, 100)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert (await store.jobs.get(DEFAULT_TENANT, lease.job_id)).state is State.SUCCEEDED


async def test_a_settle_sees_a_cancel_that_came_after_the_claim(store: PostgresStore) -> None:
    await store.jobs.submit_batch([new_job(), new_job()], NOW)
    leases = [await claim_one(store), await claim_one(store)]
    await store.jobs.cancel(DEFAULT_TENANT, leases[1].job_id, NOW)
    outcome = Errored(BOOM, 0)
    assert await store.workers.settle([Settlement(lease, outcome) for lease in leases], NOW) == [
        True,
        True,
    ]
    states = [(await store.jobs.get(DEFAULT_TENANT, lease.job_id)).state for lease in leases]
    assert states == [State.QUEUED, State.CANCELLED]


async def test_a_settle_numbers_its_event_after_those_of_reports(store: PostgresStore) -> None:
    await store.jobs.submit(new_job(), NOW)
    lease = await claim_one(store)
    said = Report(Progress(1, 2), "loading", (NewJobEvent(EventType.LOG, "{}"),))
    assert await store.workers.report(lease, said, NOW)
    assert await store.workers.settle([Settlement(lease, Succeeded("1"))], NOW) == [True]
    job = await store.jobs.get(DEFAULT_TENANT, lease.job_id)
    assert (job.state, job.progress, job.phase) == (State.SUCCEEDED, Progress(1, 2), None)
    events = await store.jobs.list_events(DEFAULT_TENANT, lease.job_id, 0, 100)
    assert [event.seq for event in events] == [1, 2, 3, 4, 5]


async def test_reports_do_not_keep_a_job_from_being_settled_as_it_is_remembered(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.jobs.submit(new_job(), NOW)
    lease = await claim_one(store)
    for _ in range(2):
        assert await store.workers.report(lease, Report(Progress(1, 2)), NOW)
    monkeypatch.setattr(job_operations, "settle", None)  # the careful way
    assert await store.workers.settle([Settlement(lease, Succeeded("1"))], NOW) == [True]


async def test_a_settle_after_a_report_of_a_phase_alone_ends_the_phase(
    store: PostgresStore,
) -> None:
    await store.jobs.submit(new_job(), NOW)
    lease = await claim_one(store)
    assert await store.workers.report(lease, Report(phase="loading"), NOW)
    assert await store.workers.settle([Settlement(lease, Succeeded("1"))], NOW) == [True]
    assert (await store.jobs.get(DEFAULT_TENANT, lease.job_id)).phase is None


async def test_one_stale_lease_does_not_keep_the_others_from_being_settled(
    store: PostgresStore,
) -> None:
    await store.jobs.submit_batch([new_job() for _ in range(3)], NOW)
    leases = [await claim_one(store) for _ in range(3)]
    await store.workers.settle([Settlement(leases[1], Released())], NOW)
    again = await claim_one(store)  # by the same worker, under a newer lease
    assert again.job_id == leases[1].job_id
    settlements = [Settlement(lease, Succeeded("1")) for lease in leases]
    assert await store.workers.settle(settlements, NOW) == [True, False, True]
    assert (await store.maintenance.read_counters())["stale_writes"] == 1
    assert await store.workers.settle([Settlement(again, Succeeded("2"))], NOW) == [True]
    assert await store.workers.settle([Settlement(again, Succeeded("3"))], NOW) == [True]
    assert (await store.jobs.get(DEFAULT_TENANT, again.job_id)).result == "2"


async def test_another_store_settles_what_it_has_not_claimed(
    store: PostgresStore, dsn: str, schema: str
) -> None:
    await store.jobs.submit(new_job(), NOW)
    lease = await claim_one(store)
    other = PostgresStore(dsn, schema=schema, connections=2, poll_s=60)
    await other.open()
    try:
        assert await other.workers.settle([Settlement(lease, Succeeded("1"))], NOW) == [True]
        assert await store.workers.settle([Settlement(lease, Succeeded("2"))], NOW) == [True]
        assert (await store.jobs.get(DEFAULT_TENANT, lease.job_id)).result == "1"
    finally:
        await other.close()
