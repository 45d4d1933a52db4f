"""Wake-ups between processes on one server: NOTIFY, and the poll where that is not to be had."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from coatcheck.model.job import DEFAULT_TENANT, Progress
from coatcheck.store.base import Report, Signal, Topic
from coatcheck.store.postgres.database import notify
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.testing.conformance.arrange import NOW, WORKER, new_job, run_job, worker_info

from .another_process import another_process
from .proxy import backends, terminate

pytestmark = pytest.mark.anyio

# Far longer than any wake-up takes, and shorter than the poll of the stores here (60 s).
LONG = 30.0
# Long enough for a wake-up that should not come.
SHORT = 0.3


async def listening(store: PostgresStore, topic: Topic = Topic.WORK) -> Signal:
    """Subscribe, and return when the store listens: it wakes everybody once then."""
    signal = store.subscribe(topic)
    assert await signal.wait(LONG)
    return signal


@pytest.fixture
async def other(store: PostgresStore, dsn: str, schema: str) -> AsyncIterator[PostgresStore]:
    """Another store on the same schema, which hears of this one by NOTIFY only."""
    other = PostgresStore(dsn, schema=schema, connections=2, poll_s=60)
    await other.open()
    yield other
    await other.close()


async def test_another_process_wakes_a_subscriber_here(
    store: PostgresStore, dsn: str, schema: str
) -> None:
    signal = await listening(store)
    with another_process("submit", dsn, schema) as process:
        assert await asyncio.to_thread(process.says) == "open"
        for _ in range(3):
            process.tell()
            assert await signal.wait(LONG) is True
            assert await asyncio.to_thread(process.says) == "submitted"


async def test_a_submit_here_wakes_another_process(
    store: PostgresStore, dsn: str, schema: str
) -> None:
    with another_process("subscribe", dsn, schema) as process:
        assert await asyncio.to_thread(process.says) == "waiting"
        await store.jobs.submit(new_job(), NOW)
        assert await asyncio.to_thread(process.says) == "woken"
        process.finish()


async def test_only_the_topic_that_was_touched_wakes(
    store: PostgresStore, other: PostgresStore
) -> None:
    work, cancels = await listening(other), other.subscribe(Topic.CANCELS)
    await store.jobs.submit(new_job(), NOW)
    assert await work.wait(LONG)
    assert await cancels.wait(0) is False


async def test_topics_that_are_added_later_are_woken_too(
    store: PostgresStore, other: PostgresStore
) -> None:
    await listening(other)
    cancels, changes = other.subscribe(Topic.CANCELS), other.subscribe(Topic.CHANGES)
    job = new_job()
    await store.jobs.submit(job, NOW)
    await store.jobs.cancel(job.tenant, job.id, NOW)
    assert await cancels.wait(LONG)
    assert await changes.wait(LONG)


async def test_of_a_stream_of_reports_the_last_is_told_too(
    store: PostgresStore, other: PostgresStore
) -> None:
    reports, changes = await listening(other, Topic.REPORTS), other.subscribe(Topic.CHANGES)
    await store.workers.register_worker(worker_info(WORKER))
    lease = await run_job(store, new_job())
    assert await changes.wait(LONG)
    for done in range(1, 51):
        assert await store.workers.report(lease, Report(Progress(done)), NOW)
    seen = 0.0
    while seen < 50:  # as long as it is not the last, there is another wake-up to come
        assert await reports.wait(LONG)
        progress = (await other.jobs.get(lease.tenant, lease.job_id)).progress
        seen = 0.0 if progress is None else progress.done
    assert await changes.wait(0) is False


async def test_a_lost_listening_connection_is_opened_again_and_what_was_missed_is_found(
    dsn: str, schema: str, store: PostgresStore
) -> None:
    waiting = PostgresStore(dsn, schema=schema, connections=2, poll_s=0.1)
    await waiting.open()
    try:
        before = await backends(dsn)
        signal = await listening(waiting)
        [listener] = await backends(dsn) - before
        await terminate(dsn, listener)
        job = new_job()
        await store.jobs.submit(job, NOW)  # nobody may hear of it
        assert await signal.wait(LONG) is True
        assert (await waiting.jobs.get(DEFAULT_TENANT, job.id)).id == job.id
        while await signal.wait(1):
            pass  # it polls; once it listens again it is silent
        await store.jobs.submit(new_job(), NOW)
        assert await signal.wait(LONG) is True
    finally:
        await waiting.close()


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://postgres@/postgres?host=/nonexistent",
        "postgresql://postgres@127.0.0.1:1/postgres",
    ],
)
async def test_where_listening_is_impossible_the_poll_alone_wakes(
    store: PostgresStore, dsn: str, schema: str, address: str
) -> None:
    deaf = PostgresStore(dsn, schema=schema, connections=2, poll_s=0.05, listen_dsn=address)
    await deaf.open()
    try:
        signals = [deaf.subscribe(topic) for topic in Topic]
        for _ in range(2):
            await store.jobs.submit(new_job(), NOW)
            for signal in signals:  # a poll cannot tell what happened
                assert await signal.wait(LONG) is True
    finally:
        await deaf.close()


async def test_the_poll_does_not_grow_slower_where_listening_is_impossible(
    store: PostgresStore, dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Between two tries to listen nothing is heard for an hour: only the poll is left.
    monkeypatch.setattr(notify, "FIRST_PAUSE_S", 3_600.0)
    monkeypatch.setattr(notify, "LONGEST_PAUSE_S", 3_600.0)
    wrong = "postgresql://postgres@/postgres?host=/nonexistent"
    deaf = PostgresStore(dsn, schema=schema, connections=2, poll_s=0.05, listen_dsn=wrong)
    await deaf.open()
    try:
        signal = deaf.subscribe(Topic.WORK)
        for _ in range(12):  # were each twice as far off, the last would be two minutes away
            assert await signal.wait(LONG) is True
    finally:
        await deaf.close()


async def test_another_schema_wakes_nobody_here(store: PostgresStore, dsn: str) -> None:
    signal = await listening(store)
    neighbours = PostgresStore(dsn, schema="neighbours", connections=2, poll_s=60)
    await neighbours.open()
    try:
        own = await listening(neighbours)
        connection = await asyncpg.connect(dsn)
        await connection.execute("""SELECT pg_notify('neighbours', 'x work changes cancels')""")
        await connection.close()
        assert await own.wait(LONG) is True  # so it has been delivered everywhere
        await neighbours.jobs.submit(new_job(), NOW)
        assert await own.wait(LONG) is True
        assert await signal.wait(SHORT) is False
    finally:
        await neighbours.close()
        connection = await asyncpg.connect(dsn)
        await connection.execute("DROP SCHEMA neighbours CASCADE")
        await connection.close()


@pytest.mark.parametrize("payload", ["", " ", "x", "x nonsense", "é\n work-ish"])
async def test_a_notification_that_makes_no_sense_is_passed_over(
    store: PostgresStore, other: PostgresStore, dsn: str, schema: str, payload: str
) -> None:
    signal = await listening(other)
    connection = await asyncpg.connect(dsn)
    await connection.execute("SELECT pg_notify($1, $2)", schema, payload)
    await connection.close()
    await store.jobs.submit(new_job(), NOW)
    assert await signal.wait(LONG) is True
