"""Least privilege: a role that owns its schema, and one that may only use what is in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from coatcheck.errors import CoatcheckError, ConfigurationError, SchemaOutdated
from coatcheck.store.base import Topic
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.testing.conformance.arrange import NOW, new_job
from tests.docs.pages import ROOT

from .life import live
from .roles import PASSWORD, as_role, new_role

pytestmark = pytest.mark.anyio


@pytest.fixture
def admin(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def owner(admin: psycopg.Connection[Any], schema: str) -> Iterator[str]:
    """A role that owns only its own schema."""
    with new_role(admin) as role:
        admin.execute(f'CREATE SCHEMA "{schema}" AUTHORIZATION {role}'.encode())
        yield role


@pytest.fixture
def user(admin: psycopg.Connection[Any]) -> Iterator[str]:
    """A role that may do nothing yet."""
    with new_role(admin) as role:
        yield role


def grant_use(dsn: str, schema: str, owner: str, role: str) -> None:
    """Let a role use the tables of a schema, as the how-to tells its owner to."""
    told = ((ROOT / "docs/how-to/postgresql.md").read_text()).partition("```sql\n")[2]
    sql = told.partition("```")[0].replace("SCHEMA coatcheck", f'SCHEMA "{schema}"')
    with psycopg.connect(as_role(dsn, owner), autocommit=True) as connection:
        connection.execute(sql.replace("TO app", f"TO {role}").encode())


async def test_a_role_that_owns_only_its_schema_migrates_and_works_there(
    admin: psycopg.Connection[Any], dsn: str, schema: str, owner: str
) -> None:
    [may_create] = admin.execute(
        "SELECT has_database_privilege(%s, current_database(), 'CREATE')", [owner]
    ).fetchone() or [None]
    assert may_create is False
    store = PostgresStore(as_role(dsn, owner), schema=schema, connections=2)
    await store.open()
    await live(store)
    await store.close()


async def test_a_role_that_may_only_use_the_tables_may_use_those_of_later_versions(
    dsn: str, schema: str, owner: str, user: str
) -> None:
    """What it was given before the schema had any tables is enough for all that came later."""
    grant_use(dsn, schema, owner, user)
    assert await PostgresStore(as_role(dsn, owner), schema=schema).migrate()
    store = PostgresStore(as_role(dsn, user), schema=schema, connections=2, poll_s=60)
    await store.open()
    await live(store)
    await store.close()


async def test_a_role_that_may_only_use_the_tables_lives_with_what_another_migrated(
    dsn: str, schema: str, owner: str, user: str
) -> None:
    assert await PostgresStore(as_role(dsn, owner), schema=schema).migrate()
    grant_use(dsn, schema, owner, user)
    store = PostgresStore(as_role(dsn, user), schema=schema, connections=2, poll_s=60)
    assert await store.migrate() == []
    await store.open()
    await live(store)
    await store.close()


async def test_a_role_that_may_only_use_the_tables_is_woken(
    dsn: str, schema: str, owner: str, user: str
) -> None:
    await PostgresStore(as_role(dsn, owner), schema=schema).migrate()
    grant_use(dsn, schema, owner, user)
    here = PostgresStore(as_role(dsn, user), schema=schema, connections=2, poll_s=60)
    there = PostgresStore(as_role(dsn, owner), schema=schema, connections=2, poll_s=60)
    await here.open()
    await there.open()
    signal = here.subscribe(Topic.WORK)
    assert await signal.wait(30)  # it listens
    await there.jobs.submit(new_job(), NOW)
    assert await signal.wait(30)
    await here.close()
    await there.close()


async def opening_is_refused(store: PostgresStore) -> CoatcheckError:
    """Return why a store cannot be opened."""
    with pytest.raises((ConfigurationError, SchemaOutdated)) as refused:
        await store.open()
    assert PASSWORD not in str(refused.value)
    return refused.value


async def test_a_role_that_may_not_create_the_schema_is_told_to_have_it_migrated(
    dsn: str, schema: str, user: str
) -> None:
    error = await opening_is_refused(PostgresStore(as_role(dsn, user), schema=schema))
    assert "coatcheck migrate" in str(error)


async def test_so_is_one_that_may_not_create_tables_in_it(
    admin: psycopg.Connection[Any], dsn: str, schema: str, owner: str, user: str
) -> None:
    admin.execute(f'GRANT USAGE ON SCHEMA "{schema}" TO {user}'.encode())
    error = await opening_is_refused(PostgresStore(as_role(dsn, user), schema=schema))
    assert "coatcheck migrate" in str(error)


async def test_a_role_that_may_not_see_the_schema_hears_what_it_lacks(
    dsn: str, schema: str, owner: str, user: str
) -> None:
    await PostgresStore(as_role(dsn, owner), schema=schema).migrate()
    error = await opening_is_refused(PostgresStore(as_role(dsn, user), schema=schema))
    assert "permission denied" in str(error)
    assert schema in str(error)


async def test_a_role_that_may_not_write_hears_what_it_lacks(
    admin: psycopg.Connection[Any], dsn: str, schema: str, owner: str, user: str
) -> None:
    await PostgresStore(as_role(dsn, owner), schema=schema).migrate()
    admin.execute(f'GRANT USAGE ON SCHEMA "{schema}" TO {user}'.encode())
    admin.execute(f'GRANT SELECT ON ALL TABLES IN SCHEMA "{schema}" TO {user}'.encode())
    store = PostgresStore(as_role(dsn, user), schema=schema, connections=2)
    await store.open()
    with pytest.raises(ConfigurationError, match="permission denied"):
        await store.jobs.submit(new_job(), NOW)
    await store.close()
