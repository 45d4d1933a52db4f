"""Behind PgBouncer in transaction mode: nothing is kept on a connection, and nobody is woken by it.

Each transaction may be on another of the server's connections, so neither prepared statements nor
LISTEN can be used; jobs start by the poll, or by NOTIFY where there is a direct address too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from coatcheck.engine.engine import Engine
from coatcheck.model.outcome import Succeeded
from coatcheck.model.state import State
from coatcheck.settings import Settings
from coatcheck.store.base import Settlement, Topic
from coatcheck.store.postgres.database.pool import is_pooled
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.testing.conformance.arrange import (
    NOW,
    everything,
    new_job,
    worker_info,
)

from .bouncer import Bouncer, find_program
from .life import live
from .working import Workshop, check_that_each_succeeded_once, working

pytestmark = pytest.mark.anyio

LONG = 30.0


@pytest.fixture(scope="session")
def program() -> str:
    return find_program()


@pytest.fixture(scope="module")
def pooled_dsn(program: str, dsn: str) -> Iterator[str]:
    with Bouncer(program, dsn) as bouncer:
        yield bouncer.dsn


@pytest.fixture
async def pooled(pooled_dsn: str, schema: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(pooled_dsn, schema=schema, connections=8, poll_s=0.05)
    await store.open()
    yield store
    await store.close()


async def test_a_pooler_is_noticed(pooled_dsn: str, dsn: str) -> None:
    assert await is_pooled(pooled_dsn) is True
    assert await is_pooled(dsn) is False


async def test_every_verb_works_through_a_pooler(pooled: PostgresStore) -> None:
    await live(pooled)


async def test_many_callers_share_few_connections_and_disturb_nobody(pooled: PostgresStore) -> None:
    """Eight connections of ours on four of the server's, all busy with all kinds of work."""
    workers = [f"worker-{n}" for n in range(6)]
    for worker in workers:
        await pooled.workers.register_worker(worker_info(worker))
    single = [new_job() for _ in range(200)]
    batches = [[new_job() for _ in range(20)] for _ in range(5)]
    jobs = len(single) + 100

    async def work(worker: str) -> int:
        settled = 0
        while any(queue.ready or queue.running for queue in await pooled.queues.list_queues()):
            claims = (await pooled.workers.claim(worker, ["mail"], 5, NOW)).claims
            settlements = [Settlement(claim.lease, Succeeded("1")) for claim in claims]
            answers = await pooled.workers.settle(settlements, NOW) if settlements else []
            assert all(answers)
            settled += len(answers)
            await pooled.workers.heartbeat(worker)
            await pooled.jobs.get_many([(job.tenant, job.id) for job in single[:7]])
        return settled

    await asyncio.gather(
        *(pooled.jobs.submit(job, NOW) for job in single),
        *(pooled.jobs.submit_batch(batch, NOW) for batch in batches),
    )
    async with asyncio.timeout(LONG):
        settled = await asyncio.gather(*(work(worker) for worker in workers))
    assert sum(settled) == jobs
    ended = await everything(pooled)
    assert len(ended) == jobs
    assert {job.state for job in ended} == {State.SUCCEEDED}
    assert {job.fence for job in ended} == {1}


async def test_jobs_start_by_the_poll_alone(pooled: PostgresStore, dsn: str, schema: str) -> None:
    workshop = Workshop()
    submitting = PostgresStore(dsn, schema=schema, connections=2, poll_s=60)
    await submitting.open()
    engine = Engine(submitting, workshop.app.kinds)
    async with working(Engine(pooled, workshop.app.kinds), Settings(concurrency=4)):
        for n in range(3):
            job = workshop.new_job(engine, "quick", n)
            await submitting.jobs.submit(job, engine.clock.now())
            await check_that_each_succeeded_once(engine, [job])
    assert set(workshop.starts.values()) == {1}
    await submitting.close()


async def test_with_a_direct_address_to_listen_at_they_start_by_notify(
    pooled_dsn: str, dsn: str, schema: str
) -> None:
    here = PostgresStore(pooled_dsn, schema=schema, connections=2, poll_s=60, listen_dsn=dsn)
    there = PostgresStore(pooled_dsn, schema=schema, connections=2, poll_s=60)
    await here.open()
    await there.open()
    signal = here.subscribe(Topic.WORK)
    assert await signal.wait(LONG)  # it listens
    for _ in range(3):
        await there.jobs.submit(new_job(), NOW)
        assert await signal.wait(LONG) is True
    await here.close()
    await there.close()


async def test_where_the_address_to_listen_at_is_a_pooler_s_too_the_poll_wakes(
    pooled_dsn: str, schema: str
) -> None:
    """A pooler takes a LISTEN and forgets it with the transaction."""
    here = PostgresStore(
        pooled_dsn, schema=schema, connections=2, poll_s=0.05, listen_dsn=pooled_dsn
    )
    there = PostgresStore(pooled_dsn, schema=schema, connections=2, poll_s=60)
    await here.open()
    await there.open()
    try:
        signal = here.subscribe(Topic.WORK)
        assert await signal.wait(LONG)
        for _ in range(3):
            await there.jobs.submit(new_job(), NOW)
            assert await signal.wait(LONG) is True
    finally:
        await here.close()
        await there.close()


async def test_a_pooler_that_is_started_again_is_found_again(
    program: str, dsn: str, schema: str
) -> None:
    with Bouncer(program, dsn) as bouncer:
        store = PostgresStore(bouncer.dsn, schema=schema, connections=4, poll_s=0.05)
        await store.open()
        before, after = new_job(), new_job()
        await store.jobs.submit(before, NOW)
        await asyncio.to_thread(bouncer.restart)
        await store.jobs.submit(after, NOW)
        assert {job.id for job in await everything(store)} == {before.id, after.id}
        await store.close()
