"""A real PostgreSQL: one server for each test process, one schema for each test.

`COATCHECK_TEST_POSTGRES=<dsn>` runs the same tests against a server that is there already.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from coatcheck.store.postgres.store import PostgresStore

from .server import TrialServer

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def dsn() -> Iterator[str]:
    given = os.environ.get("COATCHECK_TEST_POSTGRES")
    if given:
        yield given
        return
    with TrialServer() as server:
        yield server.dsn


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def schema(dsn: str) -> Iterator[str]:
    name = f"test_{os.getpid()}_{next(_numbers)}"
    yield name
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')


@pytest.fixture
async def store(dsn: str, schema: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(dsn, schema=schema, connections=6, poll_s=60)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
