import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from coatcheck.store.sqlite.store import SQLiteStore
from tests.store.template import migrated


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def database() -> Iterator[Path]:
    # A path of pytest's own would be too long for the sockets that lie beside a database.
    with tempfile.TemporaryDirectory(prefix="store-") as folder:
        yield Path(folder) / "jobs.db"


@pytest.fixture
async def store(database: Path) -> AsyncIterator[SQLiteStore]:
    # The poll is so slow that only real wake-ups can be seen.
    store = SQLiteStore(migrated(database), poll_s=60)
    await store.open()
    yield store
    await store.close()
