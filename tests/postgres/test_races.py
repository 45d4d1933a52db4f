"""One transaction comes between two statements of another, or while one of them waits for a lock.

Each of these was found by trying orders of statements (interleaving.py), or by reading.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import asyncpg
import pytest

from coatcheck.model.job import Failure, Lease
from coatcheck.model.outcome import GaveUp, Outcome, Released, Succeeded
from coatcheck.model.step import Op, StepId
from coatcheck.store.base import Report, Settlement
from coatcheck.store.postgres.database import pool as database
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.testing.conformance.arrange import (
    NOW,
    OTHER_WORKER,
    TENANT,
    WORKER,
    claim,
    job_of,
    new_job,
    new_step,
    run_job,
    settle,
    worker_info,
)

pytestmark = pytest.mark.anyio

BOOM = Failure("boom", "it went wrong")
_HELD_UP = "SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))"
_SOMEBODY_IS = "SELECT FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0"


@pytest.fixture
async def leases(store: PostgresStore) -> list[Lease]:
    await store.workers.register_worker(worker_info(WORKER))
    await store.jobs.submit_batch([new_job() for _ in range(3)], NOW)
    return [each.lease for each in await claim(store)]


async def while_row_changes(
    dsn: str, store: PostgresStore, lease: Lease, operation: Coroutine[Any, Any, Any]
) -> Any:
    """Run an operation that finds a job's row locked. The row is changed in a way that neither its
    fence nor its log tells of.
    """
    connection, observer = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            await connection.execute(
                f'UPDATE "{store._sql.schema}".jobs SET limited = true WHERE id = $1', lease.job_id
            )
            task = asyncio.create_task(operation)
            while not await observer.fetch(_HELD_UP, connection.get_server_pid()):
                assert not task.done()
        return await task
    finally:
        await connection.close()
        await observer.close()


async def until_done_or_held_up(dsn: str, task: asyncio.Task[Any]) -> None:
    """Wait until something has been done, or waits for a lock."""
    observer = await asyncpg.connect(dsn)
    while not (task.done() or await observer.fetch(_SOMEBODY_IS)):
        pass
    await observer.close()


class Between:
    """A connection, and what happens after the first time that a statement was run on it."""

    def __init__(
        self, connection: Any, after: str, then: list[Callable[[], Awaitable[Any]]]
    ) -> None:
        self._connection = connection
        self._after, self._then = after, then

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._connection, name)
        if name not in ("fetch", "fetchrow", "fetchval", "execute"):
            return found

        async def run(sql: str, *values: Any) -> Any:
            answer = await found(sql, *values)
            if sql == self._after and self._then:
                await self._then.pop()()
            return answer

        return run


def between(
    monkeypatch: pytest.MonkeyPatch, after: str, then: Callable[[], Awaitable[Any]]
) -> None:
    """Have something happen once a statement was run, in the midst of its transaction."""
    run_on, once = database._run_on, [then]
    monkeypatch.setattr(
        database,
        "_run_on",
        lambda connection, *rest: run_on(Between(connection, after, once), *rest),
    )


@pytest.mark.parametrize("outcome", [Succeeded("1"), GaveUp(BOOM)])
async def test_jobs_are_settled_together_though_the_row_of_one_changes_just_then(
    dsn: str, store: PostgresStore, leases: list[Lease], outcome: Outcome
) -> None:
    ends = [Settlement(lease, outcome) for lease in leases]
    answers = await while_row_changes(dsn, store, leases[1], store.workers.settle(ends, NOW))
    assert answers == [True] * 3
    for lease in leases:
        job = await job_of(store, lease)
        assert job.state.is_terminal
        log = [event.seq for event in await store.jobs.list_events(TENANT, job.id, 0, 10)]
        assert (job.last_event, log) == (3, [1, 2, 3])


@pytest.mark.parametrize("count", [1, 2])
async def test_steps_are_in_the_log_though_the_row_of_their_job_changes_just_then(
    dsn: str, store: PostgresStore, leases: list[Lease], count: int
) -> None:
    lease = leases[0]
    steps = tuple(new_step(seq, f"step {seq}") for seq in range(count))
    report = store.workers.report(lease, Report(steps=steps), NOW)
    assert await while_row_changes(dsn, store, lease, report)
    assert await store.workers.report(lease, Report(steps=(new_step(5, "next"),)), NOW)
    assert await settle(store, lease, Succeeded("1"))
    log = [event.seq for event in await store.jobs.list_events(TENANT, lease.job_id, 0, 10)]
    assert log == list(range(1, count + 5))


async def test_what_another_worker_holds_by_now_is_not_lost_with_the_one_that_had_it(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.workers.register_worker(worker_info(WORKER))
    await store.workers.register_worker(worker_info(OTHER_WORKER))
    lease = await run_job(store)
    taken: list[Lease] = []

    async def release_and_claim() -> None:
        assert await settle(store, lease, Released(0))
        taken.extend(each.lease for each in await claim(store, worker=OTHER_WORKER))

    between(monkeypatch, store._sql.held_by, release_and_claim)
    assert await store.workers.remove_worker(WORKER, 0, NOW) == 0
    [held] = await store.workers.list_held_jobs(OTHER_WORKER)
    assert [held.lease] == taken


async def test_a_limit_counts_what_a_claim_under_way_has_taken_without_knowing_it(
    dsn: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.workers.register_worker(worker_info(WORKER))
    await store.jobs.submit_batch([new_job(tenant="one"), new_job(tenant="two")], NOW)
    limiting: list[asyncio.Task[None]] = []

    async def limit() -> None:
        limiting.append(asyncio.create_task(store.queues.limit_queue("default", 1)))
        await until_done_or_held_up(dsn, limiting[0])

    between(monkeypatch, store._sql.before_turns, limit)
    assert len(await claim(store, limit=1)) == 1
    await limiting[0]
    assert await claim(store) == []


async def test_a_job_that_is_being_forked_is_deleted_afterwards(
    dsn: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.workers.register_worker(worker_info(WORKER))
    lease = await run_job(store)
    await store.jobs.send_event(TENANT, lease.job_id, "go", "1", NOW)
    took = new_step(0, "go", id=StepId(Op.EVENT, "go", None, 0))
    assert await store.workers.report(lease, Report(steps=(took,)), NOW)
    assert await settle(store, lease, GaveUp(BOOM))
    deleting: list[asyncio.Task[Any]] = []

    async def delete() -> None:
        deleting.append(asyncio.create_task(store.jobs.delete(TENANT, lease.job_id, NOW)))
        await until_done_or_held_up(dsn, deleting[0])

    between(monkeypatch, store._sql.copy_steps, delete)
    fork = new_job(forked_from=lease.job_id)
    await store.jobs.fork(lease.job_id, 5, fork, NOW)
    await deleting[0]
    assert [step.id.name for step in await store.jobs.list_steps(TENANT, fork.id)] == ["go"]
    assert [message.name for message in await store.jobs.list_sent_events(TENANT, fork.id)] == [
        "go"
    ]
