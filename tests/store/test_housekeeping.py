from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from coatcheck.model.event import EventType, NewJobEvent
from coatcheck.model.job import Progress, Terms
from coatcheck.model.outcome import Succeeded
from coatcheck.store.base import Report
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.testing.conformance.arrange import NOW, WORKER, new_job, run_job, settle, worker_info

pytestmark = pytest.mark.anyio


@pytest.fixture
async def working(store: SQLiteStore) -> AsyncIterator[SQLiteStore]:
    await store.workers.register_worker(worker_info(WORKER))
    yield store


def rows_that_tell_of(database: Path, *texts: str) -> set[str]:
    """Return the tables with a row in which one of the texts occurs."""
    with closing(apsw.Connection(str(database))) as outside:
        tables = [
            name for (name,) in outside.execute("SELECT name FROM sqlite_schema WHERE type='table'")
        ]
        return {
            table
            for table in tables
            for row in outside.execute(f"SELECT * FROM {table}")
            for text in texts
            if text in str(row)
        }


async def test_what_retention_has_passed_over_leaves_its_id_and_nothing_else(
    working: SQLiteStore, database: Path
) -> None:
    job = new_job(
        input='"private-input"',
        labels='{"x":"private-label"}',
        public_id="private-public-id",
        terms=Terms(keep_succeeded_ms=1_000),
    )
    lease = await run_job(working, job)
    log = NewJobEvent(EventType.LOG, '{"message":"private-log"}')
    await working.workers.report(
        lease, Report(Progress(1, 2, "private-message"), None, (log,)), NOW
    )
    await settle(working, lease, Succeeded('"private-result"'), NOW)
    assert rows_that_tell_of(database, "private") == {"jobs", "events", "payloads", "labels"}

    await working.maintenance.sweep(NOW + 1_000)
    assert rows_that_tell_of(database, "private") == set()
    assert rows_that_tell_of(database, job.id) == {"tombstones"}
    await working.maintenance.sweep(NOW + 1_000 + 7 * 86_400_000)
    assert rows_that_tell_of(database, job.id) == set()


async def test_a_sweep_with_nothing_to_do_writes_nothing(
    working: SQLiteStore, database: Path
) -> None:
    await run_job(working)
    with closing(apsw.Connection(str(database))) as outside:
        before = outside.execute("PRAGMA data_version").get
        await working.maintenance.sweep(NOW + 10**9)
        assert outside.execute("PRAGMA data_version").get == before
