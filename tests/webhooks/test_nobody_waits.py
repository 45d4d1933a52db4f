"""A receiver that is silent is silent for itself: neither many of them, nor much that waits for
one, delays another's message. On both stores; the silent ones answer only when the test lets them.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import psycopg
import pytest

from coatcheck.egress.policy import EgressPolicy
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.engine.webhooks.endpoints import WebhookSpec
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.store.base import Store
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.store.sqlite.database.transaction import Urgency
from coatcheck.store.sqlite.store import SQLiteStore
from tests.webhooks.conftest import app, delivering
from tests.webhooks.receiver import Answer, Receiver, receiving

pytestmark = pytest.mark.anyio

LONG = 60.0
SILENT = 40
EACH = 10
OTHER = "another"
_numbers = itertools.count(1)


@pytest.fixture
def sqlite() -> Iterator[SQLiteStore]:
    with tempfile.TemporaryDirectory(prefix="hooks-") as folder:
        yield SQLiteStore(Path(folder) / "jobs.db")


@pytest.fixture
def postgres(dsn: str) -> Iterator[PostgresStore]:
    schema = f"hooks_{os.getpid()}_{next(_numbers)}"
    yield PostgresStore(dsn, schema=schema, connections=4)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE'.encode())


@pytest.fixture(params=["sqlite", "postgres"])
async def engine(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Engine]:
    # However slow the machine is, no call is given up: what is told is told beside the silent ones.
    monkeypatch.setattr("coatcheck.engine.webhooks.dispatcher.TIMEOUT_S", 10 * LONG)
    monkeypatch.setattr("coatcheck.engine.webhooks.dispatcher.LEASE_MS", 1_200_000)
    store: Store = request.getfixturevalue(request.param)
    await store.open()
    engine = Engine(store, app.kinds, egress=EgressPolicy("127.0.0.1"))
    yield engine
    await engine.dispatcher.close()
    await store.close()


async def end_jobs(engine: Engine, urls: Sequence[str | None], tenant: str) -> None:
    """Have jobs end that name these webhooks of their own."""
    asked = [None if url is None else WebhookSpec(url) for url in urls]
    jobs = await engine.insert_batch(
        [Submission("echo", "1", tenant=tenant, webhook=webhook) for webhook in asked]
    )
    await asyncio.gather(*(engine.cancel(job.id, tenant) for job in jobs))


async def is_called(receiver: Receiver, times: int = 1) -> None:
    async with asyncio.timeout(LONG):
        while len(receiver.calls) < times:
            receiver.called.clear()
            await receiver.called.wait()


async def told_in_the_end(engine: Engine, silent: Sequence[Receiver]) -> list[str]:
    """Let the silent ones answer; return what they were told."""
    for receiver in silent:
        receiver.let_go.set()
    async with asyncio.timeout(LONG):
        await engine.dispatcher.deliver_due()
    return [call.id for receiver in silent for call in receiver.calls]


@pytest.mark.parametrize("tenant", [OTHER, DEFAULT_TENANT], ids=["another's", "its own"])
async def test_many_silent_endpoints_of_a_tenant_delay_nobody(engine: Engine, tenant: str) -> None:
    async with receiving(lambda _: None) as silent, receiving() as healthy:
        for _ in range(SILENT):
            await engine.webhooks.create(WebhookSpec(silent.url))
        await end_jobs(engine, [None] * EACH, DEFAULT_TENANT)
        async with delivering(engine):
            await is_called(silent, SILENT)
            for times in range(1, 4):
                await end_jobs(engine, [healthy.url], tenant)
                await is_called(healthy, times)
            assert len(silent.calls) == SILENT, "one call each, until it is answered"
            told = await told_in_the_end(engine, [silent])
    own = 0 if tenant == OTHER else 3
    assert len(told) == SILENT * (EACH + own)


@pytest.mark.parametrize("tenant", [OTHER, DEFAULT_TENANT], ids=["another's", "its own"])
async def test_many_silent_servers_that_jobs_name_delay_nobody(engine: Engine, tenant: str) -> None:
    async with contextlib.AsyncExitStack() as stack, receiving() as healthy:
        silent = [await stack.enter_async_context(receiving(lambda _: None)) for _ in range(SILENT)]
        await end_jobs(engine, [each.url for each in silent] * EACH, DEFAULT_TENANT)
        async with delivering(engine):
            for each in silent:
                await is_called(each)
            for times in range(1, 4):
                await end_jobs(engine, [healthy.url], tenant)
                await is_called(healthy, times)
            assert [len(each.calls) for each in silent] == [1] * SILENT
            told = await told_in_the_end(engine, silent)
    assert len(set(told)) == len(told) == SILENT * EACH


async def test_more_silent_servers_than_there_are_places_delay_no_other_tenant(
    engine: Engine,
) -> None:
    """Jobs may name as many as they like."""
    async with contextlib.AsyncExitStack() as stack, receiving() as healthy:
        silent = [await stack.enter_async_context(receiving(lambda _: None)) for _ in range(300)]
        await end_jobs(engine, [each.url for each in silent], DEFAULT_TENANT)
        async with delivering(engine):
            async with asyncio.timeout(LONG):
                await asyncio.wait(
                    [asyncio.create_task(each.called.wait()) for each in silent],
                    return_when=asyncio.FIRST_COMPLETED,
                )
            await end_jobs(engine, [healthy.url], OTHER)
            await is_called(healthy)
            told = await told_in_the_end(engine, silent)
    assert len(set(told)) == len(told) == len(silent)


async def test_a_receiver_that_has_answered_and_falls_silent_delays_nobody(engine: Engine) -> None:
    """It may have several calls under way, and so may seven others: still there is room."""
    async with contextlib.AsyncExitStack() as stack, receiving() as healthy:
        fallen = [await stack.enter_async_context(receiving(once_then_silent())) for _ in range(8)]
        urls = [each.url for each in fallen]
        await end_jobs(engine, urls, DEFAULT_TENANT)
        await engine.dispatcher.deliver_due()
        await end_jobs(engine, urls * 40, DEFAULT_TENANT)
        async with delivering(engine):
            for each in fallen:
                await is_called(each, 2)
            for tenant in (OTHER, DEFAULT_TENANT):
                healthy.calls.clear()
                await end_jobs(engine, [healthy.url], tenant)
                await is_called(healthy)
            told = await told_in_the_end(engine, fallen)
    assert len(set(told)) == len(told) == 8 * 41


def once_then_silent() -> Answer:
    answers: Iterator[int | None] = itertools.chain([204], itertools.repeat(None))
    return lambda _: next(answers)


async def test_a_dead_receiver_with_ten_thousand_waiting_does_not_delay_anothers_first(
    engine: Engine,
) -> None:
    async with receiving(lambda _: None) as dead, receiving() as healthy:
        job = await engine.submit(Submission("echo", "1", webhook=WebhookSpec(dead.url)))
        await have_waiting(engine.store, job.id, 10_000)
        async with delivering(engine):
            await is_called(dead)
            for number, tenant in enumerate([DEFAULT_TENANT, OTHER], 1):
                await end_jobs(engine, [healthy.url], tenant)
                await is_called(healthy, number)
            assert len(dead.calls) == 1, "it has one place, whatever waits"


async def have_waiting(store: Store, job_id: str, count: int) -> None:
    """Put so many deliveries of a job into the outbox."""
    if isinstance(store, SQLiteStore):
        text = f"WITH RECURSIVE {_COUNTED} {_WAITING.format(schema='main')}"
        await store._writer.write(
            lambda tx: tx.execute(text.replace("$", "?"), (job_id, count)), Urgency.SUBMIT
        )
    else:
        assert isinstance(store, PostgresStore)
        text = f"WITH RECURSIVE {_COUNTED} {_WAITING.format(schema=store._sql.schema)}"
        await store._database.run(lambda db: db.execute(text, job_id, count))


_COUNTED = "number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < $2)"
_WAITING = """
INSERT INTO {schema}.deliveries
SELECT tenant, job_id, 100 + n, '', lane, 'job.failed', 1, '{{}}', 'pending', 0, 0, 1, '[]'
FROM {schema}.endpoints, number WHERE job_id = $1
"""
