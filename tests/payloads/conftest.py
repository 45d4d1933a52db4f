"""A store of either kind with all its blobs in a folder, and a way to look through every byte."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from coatcheck.blobs.blobs import Blobs
from coatcheck.blobs.files import FileBucket
from coatcheck.store.sqlite.store import SQLiteStore
from tests.store.template import migrated


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The folder with everything that is kept."""
    return tmp_path / "data"


@pytest.fixture
async def store(data: Path) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(migrated(data / "jobs.db"))
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def blobs(data: Path) -> Iterator[Blobs]:
    blobs = Blobs(FileBucket(data / "blobs"))
    yield blobs
    blobs.close()
