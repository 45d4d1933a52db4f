"""Migrating a schema: from nothing, step by step, at once from many places, and never backwards."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.resources import files
from typing import Any

import psycopg
import pytest

from coatcheck.errors import ConfigurationError, NotFound, SchemaTooNew, StoreError
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.store.base import JobFilter
from coatcheck.store.postgres.database.schema import migrate
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.store.shared.migrations import Migration, load_migrations
from coatcheck.testing.conformance.arrange import NOW, WORKER, claimed_ids, new_job, worker_info

from .another_process import another_process
from .roles import as_role, new_role

pytestmark = pytest.mark.anyio


class Release(Statements):
    """The statements of a release that knows so many migrations: ours and one more at most."""

    def __init__(self, schema: str, count: int | None = None) -> None:
        super().__init__(schema)
        self._count = count

    def migrations(self) -> list[Migration]:
        known = super().migrations()
        table = f'"{self.schema}".later'
        sql = f"CREATE TABLE {table} (a text); CREATE INDEX ON {table} (a)"
        return [*known, Migration(len(known) + 1, "later", sql)][: self._count]


OURS = len(Statements("x").migrations())


@pytest.fixture
def admin(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def other_schema(admin: psycopg.Connection[Any], schema: str) -> Iterator[str]:
    name = f"{schema}_other"
    yield name
    admin.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE'.encode())


_COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable, column_default, collation_name
FROM information_schema.columns WHERE table_schema = %(schema)s
ORDER BY table_name, ordinal_position
"""
_INDEXES = """
SELECT tablename, indexname, replace(indexdef, %(schema)s, '') FROM pg_indexes
WHERE schemaname = %(schema)s ORDER BY tablename, indexname
"""
_STORAGE = """
SELECT relname, reloptions FROM pg_class WHERE relnamespace = to_regnamespace(%(schema)s)
ORDER BY relname
"""
_CONSTRAINTS = """
SELECT conname, replace(pg_get_constraintdef(oid), %(schema)s, '') FROM pg_constraint
WHERE connamespace = to_regnamespace(%(schema)s) ORDER BY conname
"""
_FUNCTIONS = """
SELECT proname, replace(prosrc, %(schema)s, '') FROM pg_proc
WHERE pronamespace = to_regnamespace(%(schema)s) ORDER BY proname
"""
_DESCRIPTION = (_COLUMNS, _INDEXES, _STORAGE, _CONSTRAINTS, _FUNCTIONS)


def described(admin: psycopg.Connection[Any], schema: str) -> list[list[Any]]:
    """Return everything that is in a schema."""
    return [admin.execute(query.encode(), {"schema": schema}).fetchall() for query in _DESCRIPTION]


def applied(admin: psycopg.Connection[Any], schema: str) -> list[tuple[int, str]]:
    query = f'SELECT number, name FROM "{schema}".migrations ORDER BY number'
    return admin.execute(query.encode()).fetchall()


def test_both_stores_have_the_same_migrations() -> None:
    sqlite = load_migrations(files("coatcheck.store.sqlite") / "migrations")
    postgres = load_migrations(files("coatcheck.store.postgres") / "migrations")
    assert [step[:2] for step in sqlite] == [step[:2] for step in postgres]


async def test_migrating_twice_does_nothing_the_second_time(
    admin: psycopg.Connection[Any], dsn: str, schema: str
) -> None:
    store = PostgresStore(dsn, schema=schema)
    assert [step.number for step in await store.migrate()] == list(range(1, OURS + 1))
    before = described(admin, schema)
    assert before[0]
    assert await store.migrate() == []
    assert described(admin, schema) == before


async def test_a_schema_migrated_step_by_step_equals_a_fresh_one(
    admin: psycopg.Connection[Any], dsn: str, schema: str, other_schema: str
) -> None:
    for count in range(1, OURS + 2):
        [step] = await migrate(dsn, Release(schema, count))
        assert step.number == count
    assert len(await migrate(dsn, Release(other_schema))) == OURS + 1
    assert described(admin, schema) == described(admin, other_schema)
    assert applied(admin, schema) == applied(admin, other_schema)


async def test_a_migration_that_fails_leaves_the_schema_as_it_was(
    admin: psycopg.Connection[Any], dsn: str, schema: str
) -> None:
    await migrate(dsn, Release(schema, OURS))
    before = described(admin, schema)
    admin.execute(f'CREATE TABLE "{schema}".later (in_the_way text)'.encode())
    with pytest.raises(StoreError):
        await migrate(dsn, Release(schema))
    admin.execute(f'DROP TABLE "{schema}".later'.encode())
    assert described(admin, schema) == before
    assert len(applied(admin, schema)) == OURS


async def test_a_schema_of_a_newer_release_is_refused_and_left_alone(
    admin: psycopg.Connection[Any], dsn: str, schema: str
) -> None:
    await migrate(dsn, Release(schema))
    before = described(admin, schema), applied(admin, schema)
    store = PostgresStore(dsn, schema=schema)
    with pytest.raises(SchemaTooNew, match="upgrade this one"):
        await store.open()
    with pytest.raises(SchemaTooNew):
        await store.migrate()
    assert (described(admin, schema), applied(admin, schema)) == before


async def test_an_outdated_schema_is_not_used_by_a_role_that_may_not_migrate_it(
    admin: psycopg.Connection[Any],
    dsn: str,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await migrate(dsn, Release(schema, OURS))
    with new_role(admin) as role:
        admin.execute(f'GRANT USAGE ON SCHEMA "{schema}" TO {role}'.encode())
        admin.execute(f'GRANT ALL ON ALL TABLES IN SCHEMA "{schema}" TO {role}'.encode())
        monkeypatch.setattr("coatcheck.store.postgres.store.Statements", Release)
        store = PostgresStore(as_role(dsn, role), schema=schema)
        with pytest.raises((StoreError, ConfigurationError), match="coatcheck migrate"):
            await store.open()
    assert len(applied(admin, schema)) == OURS


async def test_processes_that_migrate_at_once_do_it_once(
    admin: psycopg.Connection[Any], dsn: str, schema: str, other_schema: str
) -> None:
    with ExitStack() as stack:
        others = [stack.enter_context(another_process("migrate", dsn, schema)) for _ in range(4)]
        for other in others:
            assert await asyncio.to_thread(other.says) == "ready"
        for other in others:
            other.tell()
        counts = sorted([int(await asyncio.to_thread(other.finish)) for other in others])
    assert counts == [0, 0, 0, OURS]
    await PostgresStore(dsn, schema=other_schema).migrate()
    assert described(admin, schema) == described(admin, other_schema)


async def test_stores_that_open_at_once_all_open(dsn: str, schema: str) -> None:
    stores = [PostgresStore(dsn, schema=schema, connections=2) for _ in range(6)]
    await asyncio.gather(*(store.open() for store in stores))
    await asyncio.gather(*(store.close() for store in stores))


async def test_two_schemas_in_one_database_do_not_see_each_other(
    store: PostgresStore, dsn: str, other_schema: str
) -> None:
    other = PostgresStore(dsn, schema=other_schema, connections=2, poll_s=60)
    await other.open()
    job = new_job()
    await store.jobs.submit(job, NOW)
    with pytest.raises(NotFound):
        await other.jobs.get(DEFAULT_TENANT, job.id)
    assert await other.jobs.list_jobs(JobFilter(DEFAULT_TENANT)) == []
    assert await other.queues.list_queues() == []
    for each in (store, other):
        await each.workers.register_worker(worker_info(WORKER))
    assert await claimed_ids(other) == []
    await other.jobs.submit(job, NOW)  # the same id is another job there
    assert await claimed_ids(other) == [job.id]
    assert await claimed_ids(store) == [job.id]
    await other.close()


@pytest.mark.parametrize(
    "name",
    ["", "Upper", "1st", "a-b", "a b", 'a"; DROP SCHEMA public; --', "a.b", "é", "x" * 64, "a\n"],
)
def test_a_name_that_cannot_be_a_schema_s_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot name a schema"):
        PostgresStore("postgresql:///nowhere", schema=name)


@pytest.mark.parametrize("name", ["user", "select", "coatcheck_", "_", "x" * 63])
async def test_odd_names_work(admin: psycopg.Connection[Any], dsn: str, name: str) -> None:
    store = PostgresStore(dsn, schema=name, connections=2, poll_s=60)
    try:
        await store.open()
        job = new_job()
        await store.jobs.submit(job, NOW)
        assert (await store.jobs.get(DEFAULT_TENANT, job.id)).id == job.id
        await store.close()
    finally:
        admin.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE'.encode())
