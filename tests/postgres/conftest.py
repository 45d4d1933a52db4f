"""A real PostgreSQL (tests/conftest.py), with one schema for each test."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from coatcheck.store.postgres.store import PostgresStore
from tests.postgres.schemas import Schemas

_numbers = itertools.count(1)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def new_schema(dsn: str) -> Iterator[str]:
    """The name of a schema that is not there yet."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    yield name
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')


@pytest.fixture
def schema(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the test's schema, which is there if the test has the store that is in it."""
    if "store" not in request.fixturenames:
        yield request.getfixturevalue("new_schema")
        return
    schemas: Schemas = request.getfixturevalue("schemas")
    lent = schemas.lend()
    yield lent
    schemas.take_back(lent)


@pytest.fixture
async def store(dsn: str, schema: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(dsn, schema=schema, connections=6, poll_s=60)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
