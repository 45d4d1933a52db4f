"""Both stores, a launcher for each test process, and the seed of the run."""

from __future__ import annotations

import itertools
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from .launcher import Launcher
from .place import Place, postgres_place, sqlite_place

_numbers = itertools.count(1)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    with Launcher() as launcher:
        yield launcher


@pytest.fixture
def folder() -> Iterator[Path]:
    # A path of pytest's own would be too long for the sockets that lie beside a database.
    with tempfile.TemporaryDirectory(prefix="fault-") as folder:
        yield Path(folder)


@pytest.fixture
def sqlite(folder: Path) -> Place:
    return sqlite_place(folder)


@pytest.fixture
def postgres(folder: Path, dsn: str) -> Iterator[Place]:
    schema = f"fault_{os.getpid()}_{next(_numbers)}"
    yield postgres_place(folder, dsn, schema)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def seed() -> int:
    """`FAULT_SEED=n` repeats a run; every run prints its own."""
    given = os.environ.get("FAULT_SEED")
    return int(given) if given else random.randrange(1_000_000)
