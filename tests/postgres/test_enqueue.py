"""Submitting inside the caller's own transaction: the job exists if and only if it commits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from coatcheck import App, Context
from coatcheck.engine.engine import Engine
from coatcheck.errors import ConfigurationError, InvalidPayload, NotFound, UnknownKind
from coatcheck.model.state import State
from coatcheck.settings import Settings
from coatcheck.store.base import Topic
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.worker.worker import Worker

pytestmark = pytest.mark.anyio

app = App()


@app.job(queue="mail", retries=7)
async def welcome(ctx: Context, address: str) -> str:
    return f"hello {address}"


class Oops(Exception):
    pass


@pytest.fixture
async def connection(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


def sqlalchemy_url(dsn: str, driver: str) -> str:
    return dsn.replace("postgresql://", f"postgresql+{driver}://", 1)


async def test_a_job_is_there_once_its_transaction_has_committed(
    store: PostgresStore, schema: str, connection: asyncpg.Connection
) -> None:
    woken = store.subscribe(Topic.WORK)
    while await woken.wait(0.2):
        continue  # it has begun to listen
    async with connection.transaction():
        job_id = await app.enqueue(connection, "welcome", "a@example.org", schema=schema)
        with pytest.raises(NotFound):
            await store.jobs.get("default", job_id)
    job = await store.jobs.get("default", job_id)
    assert (job.kind, job.queue, job.state) == ("welcome", "mail", State.QUEUED)
    assert job.terms.max_attempts == 8
    assert [event.seq for event in await store.jobs.list_events("default", job_id, 0, 9)] == [1]
    assert await woken.wait(30), "the commit wakes the workers"


async def test_and_never_if_it_was_rolled_back(
    store: PostgresStore, schema: str, connection: asyncpg.Connection
) -> None:
    job_id = ""
    with pytest.raises(Oops):
        async with connection.transaction():
            job_id = await app.enqueue(connection, "welcome", "a@example.org", schema=schema)
            raise Oops
    with pytest.raises(NotFound):
        await store.jobs.get("default", job_id)
    assert await store.queues.list_queues() == []


async def test_it_runs_like_any_other(
    store: PostgresStore, schema: str, connection: asyncpg.Connection
) -> None:
    engine = Engine(store, app.kinds)
    stop = asyncio.Event()
    working = asyncio.create_task(Worker(engine, Settings(concurrency=2)).run(stop))
    job_id = await app.enqueue(
        connection, "welcome", "ünï@example.org", priority=3, labels={"a": "b"}, schema=schema
    )
    job = await engine.wait(job_id, 30)
    stop.set()
    await working
    assert (job.state, json.loads(job.result or "")) == (State.SUCCEEDED, "hello ünï@example.org")
    assert (job.priority, job.labels) == (3, {"a": "b"})


async def test_with_psycopg(store: PostgresStore, schema: str, dsn: str) -> None:
    def blocking() -> tuple[str, str]:
        with psycopg.connect(dsn) as connection:
            kept = app.enqueue(connection, "welcome", "a", schema=schema)
        with psycopg.connect(dsn) as connection:
            dropped = app.enqueue(connection, "welcome", "b", schema=schema)
            connection.rollback()
        return kept, dropped

    kept, dropped = await asyncio.to_thread(blocking)
    assert (await store.jobs.get("default", kept)).state is State.QUEUED
    with pytest.raises(NotFound):
        await store.jobs.get("default", dropped)
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        other = await app.enqueue(connection, "welcome", "c", schema=schema)
    assert (await store.jobs.get("default", other)).state is State.QUEUED


async def test_with_sqlalchemy(store: PostgresStore, schema: str, dsn: str) -> None:
    def blocking() -> list[str]:
        engine = create_engine(sqlalchemy_url(dsn, "psycopg"))
        with engine.begin() as connection:
            by_connection = app.enqueue(connection, "welcome", "a", schema=schema)
        with Session(engine) as session, session.begin():
            by_session = app.enqueue(session, "welcome", "b", schema=schema)
        engine.dispose()
        return [by_connection, by_session]

    ids = await asyncio.to_thread(blocking)
    engine = create_async_engine(sqlalchemy_url(dsn, "asyncpg"))
    async with engine.begin() as connection:
        ids.append(await app.enqueue(connection, "welcome", "c", schema=schema))
    async with AsyncSession(engine) as session, session.begin():
        ids.append(await app.enqueue(session, "welcome", "d", schema=schema))
    with pytest.raises(Oops):
        async with engine.begin() as connection:
            await app.enqueue(connection, "welcome", "e", schema=schema)
            raise Oops
    await engine.dispose()
    (queue,) = await store.queues.list_queues()
    assert (queue.name, queue.ready) == ("mail", 4)
    assert {(await store.jobs.get("default", job_id)).kind for job_id in ids} == {"welcome"}


async def test_bad_input_changes_nothing(
    store: PostgresStore, schema: str, connection: asyncpg.Connection
) -> None:
    with pytest.raises(InvalidPayload):
        await app.enqueue(connection, "welcome", 5, schema=schema)
    with pytest.raises(UnknownKind):
        await app.enqueue(connection, "nonsense", schema=schema)
    with pytest.raises(ConfigurationError, match="schema"):
        await app.enqueue(connection, "welcome", "a", schema='x"; DROP')
    with pytest.raises(ConfigurationError, match="asyncpg, psycopg 3 or SQLAlchemy"):
        app.enqueue(object(), "welcome", "a", schema=schema)
    assert await store.queues.list_queues() == []
