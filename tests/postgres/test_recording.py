"""Steps written in one statement are what the careful way makes of them, and it trusts nothing that
has changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from coatcheck.model.event import EventType, NewJobEvent
from coatcheck.model.job import DEFAULT_TENANT, Lease
from coatcheck.model.outcome import Succeeded
from coatcheck.model.step import Op, Step, StepId, StepState
from coatcheck.store.base import Report, Settlement
from coatcheck.store.postgres.operations import jobs as job_operations
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.testing.conformance.arrange import NOW, WORKER, new_job, worker_info

pytestmark = pytest.mark.anyio

LOG = NewJobEvent(EventType.LOG, '{"message":"hello"}')


def step(seq: int, result: str = "1", key: str | None = None) -> Step:
    id_ = StepId(Op.STEP, "fetch", key, seq)
    return Step(seq, id_, StepState.SUCCEEDED, NOW, finished_at=NOW + 1, attempts=1, result=result)


@pytest.fixture
async def leases(store: PostgresStore) -> list[Lease]:
    await store.workers.register_worker(worker_info(WORKER))
    await store.jobs.submit_batch([new_job(), new_job()], NOW)
    return [claim.lease for claim in (await store.workers.claim(WORKER, ["mail"], 2, NOW)).claims]


@pytest.fixture
def careful(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many reports went the careful way, each time."""
    seen: list[int] = []
    way: Callable[..., Awaitable[Any]] = job_operations.report

    async def counting(db: Any, sql: Any, reports: Any, now: int) -> Any:
        seen.append(len(reports))
        return await way(db, sql, reports, now)

    monkeypatch.setattr(job_operations, "report", counting)
    return seen


async def told(store: PostgresStore, lease: Lease) -> list[tuple[int, EventType, str]]:
    events = await store.jobs.list_events(lease.tenant, lease.job_id, 0, 100)
    return [(event.seq, event.type, event.data) for event in events]


async def test_both_ways_leave_the_same(
    store: PostgresStore, leases: list[Lease], careful: list[int]
) -> None:
    steps = (step(0), step(1, '"\x1f\x1e"', key="a\x1fb"), step(2, "null"))
    report = Report(steps=(steps[2], steps[0], steps[1]))  # entries are in the order they are given
    assert await store.workers.report(leases[0], report, NOW)
    assert careful == []
    store._claimer.handed._jobs.clear()
    assert await store.workers.report(leases[1], report, NOW)
    assert careful == [1]
    assert await store.jobs.list_steps(DEFAULT_TENANT, leases[0].job_id) == list(steps)
    assert await store.jobs.list_steps(DEFAULT_TENANT, leases[1].job_id) == list(steps)
    assert await told(store, leases[0]) == await told(store, leases[1])
    jobs_ = [await store.jobs.get(*lease[:2]) for lease in leases]
    assert [job.last_event for job in jobs_] == [5, 5]


async def test_a_step_after_the_other_goes_the_short_way_also_where_it_is_written_again(
    store: PostgresStore, leases: list[Lease], careful: list[int]
) -> None:
    lease = leases[0]
    waiting = replace(step(0), state=StepState.WAITING, finished_at=None, result=None)
    for each in (waiting, step(0), step(1), step(2)):
        assert await store.workers.report(lease, Report(steps=(each,)), NOW)
    assert careful == []
    assert await store.jobs.list_steps(DEFAULT_TENANT, lease.job_id) == [step(0), step(1), step(2)]
    assert [seq for seq, *_ in await told(store, lease)] == [1, 2, 3, 4, 5, 6]


async def test_a_step_that_says_nothing_new_adds_no_entry(
    store: PostgresStore, leases: list[Lease], careful: list[int]
) -> None:
    lease = leases[0]
    assert await store.workers.report(lease, Report(steps=(step(0),)), NOW)
    assert await store.workers.report(lease, Report(steps=(step(0), step(1))), NOW)
    assert careful == []
    assert await store.workers.report(lease, Report(steps=(step(0),)), NOW)
    assert careful == [1]  # it wrote nothing, which might have been for another reason
    assert [seq for seq, *_ in await told(store, lease)] == [1, 2, 3, 4]


async def test_what_is_said_beside_a_step_is_written_with_care(
    store: PostgresStore, leases: list[Lease], careful: list[int]
) -> None:
    lease = leases[0]
    assert await store.workers.report(lease, Report(events=(LOG,), steps=(step(0),)), NOW)
    assert careful == [1]
    assert await store.workers.report(lease, Report(steps=(step(1),)), NOW)
    assert careful == [1]
    types = [type_ for _, type_, _ in await told(store, lease)]
    assert types[2:] == [EventType.LOG, EventType.STEP, EventType.STEP]


async def test_a_job_that_has_changed_meanwhile_is_looked_at_again(
    store: PostgresStore, leases: list[Lease], careful: list[int]
) -> None:
    lease = leases[0]
    await store.jobs.cancel(DEFAULT_TENANT, lease.job_id, NOW)  # its log has grown
    assert await store.workers.report(lease, Report(steps=(step(0),)), NOW)
    assert careful == [1]


async def test_of_a_lost_lease_nothing_is_written(
    store: PostgresStore, leases: list[Lease], careful: list[int]
) -> None:
    lease = leases[0]
    stale = lease._replace(fence=lease.fence + 1)
    store._claimer.handed._jobs[stale] = store._claimer.handed._jobs[lease]
    assert not await store.workers.report(stale, Report(steps=(step(0),)), NOW)
    assert careful == [1]
    assert await store.jobs.list_steps(DEFAULT_TENANT, lease.job_id) == []


async def test_what_is_written_for_every_job_and_step_is_planned_once(
    dsn: str, schema: str, store: PostgresStore
) -> None:
    """Planning takes longer than doing it; a server that sees other sizes each time plans anew."""
    alone = PostgresStore(dsn, schema=schema, connections=1, poll_s=60)
    await alone.open()
    await alone.workers.register_worker(worker_info(WORKER))
    for size in (1, 1, 1, 1, 1, 1, 2, 3, 1, 5, 1, 1):
        await alone.jobs.submit_batch([new_job() for _ in range(size)], NOW)
        claimed = (await alone.workers.claim(WORKER, ["mail"], 16, NOW)).claims
        for claim in claimed:
            await alone.workers.report(claim.lease, Report(steps=(step(0),)), NOW)
        ends = [Settlement(claim.lease, Succeeded("1")) for claim in claimed]
        assert all(await alone.workers.settle(ends, NOW))
    plans = "SELECT statement, custom_plans FROM pg_prepared_statements"
    planned = {row[0]: row[1] for row in await alone._database.run(lambda db: db.fetch(plans))}
    await alone.close()
    sql = alone._sql
    for statement in (sql.claim_everywhere, sql.record_one_as_claimed, sql.succeed_as_claimed):
        assert planned[statement] == 5  # what the server takes to make up its mind
