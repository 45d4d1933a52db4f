from contextlib import ExitStack, closing
from pathlib import Path

import apsw
import pytest

from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.state import State
from coatcheck.store.base import JobFilter
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.testing.checker import RunRecord, Submit, check, read_records
from tests.store.another_process import AnotherProcess

pytestmark = pytest.mark.anyio

PROCESSES = 8
JOBS_EACH = 250


def hammer(database: Path) -> list[int]:
    """Have eight processes submit, claim and settle at once; return how often each settled."""
    with ExitStack() as stack:
        others = [
            stack.enter_context(
                AnotherProcess(database, f"worker-{n}", JOBS_EACH, module="tests.store.hammer")
            )
            for n in range(PROCESSES)
        ]
        for line in ("ready", "submitted"):
            for other in others:
                assert other.says() == line or other.finish()
            for other in others:
                other.tell()
        return [int(other.finish()) for other in others]


async def test_eight_processes_on_one_file_lose_and_repeat_nothing(
    database: Path, store: SQLiteStore
) -> None:
    settled = hammer(database)

    jobs = await store.jobs.list_jobs(JobFilter(DEFAULT_TENANT, limit=1_000_000))
    assert len(jobs) == PROCESSES * JOBS_EACH
    submits = [Submit(job.id) for job in jobs]
    check(RunRecord(submits, await read_records(store, submits)))
    assert {job.state for job in jobs} == {State.SUCCEEDED}
    assert sum(settled) == sum(job.fence for job in jobs)
    assert (await store.maintenance.read_counters()).get("stale_writes", 0) == 0
    assert await store.workers.list_workers() == []
    with closing(apsw.Connection(str(database))) as outside:
        assert outside.execute("PRAGMA integrity_check").get == "ok"
