"""Large batches and crashes: what a process that died in the middle of one leaves behind.

A dead process is played by a connection that does the first steps of a batch and no more.
"""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from coatcheck.errors import CoatcheckError
from coatcheck.model.job import DEFAULT_TENANT, JobInsert
from coatcheck.store.base import JobFilter
from coatcheck.store.sqlite.database.connection import connect
from coatcheck.store.sqlite.database.transaction import Operation, Transaction
from coatcheck.store.sqlite.operations import batches
from coatcheck.store.sqlite.store import SQLiteStore
from tests.store.another_process import NOW, new_job

pytestmark = pytest.mark.anyio

T = TypeVar("T")
SLICES = [[new_job() for _ in range(3)] for _ in range(4)]
JOBS = sorted(job.id for job in itertools.chain(*SLICES))
LATER = NOW + batches.ABANDONED_AFTER_MS


class DyingProcess:
    """Another process on the file, one transaction at a time."""

    def __init__(self, database: Path) -> None:
        self.connection = connect(database)

    def does(self, operation: Operation[T]) -> T:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            return operation(Transaction(self.connection))
        finally:
            self.connection.execute("COMMIT")

    def stages(self, batch: str, slices: list[list[JobInsert]], first: int = 0) -> None:
        for number, slice_ in enumerate(slices, first):
            self.does(lambda tx, n=number, s=slice_: batches.stage(tx, batch, n, s))  # type: ignore[misc]


@pytest.fixture
def other(store: SQLiteStore, database: Path) -> Iterator[DyingProcess]:
    process = DyingProcess(database)
    yield process
    process.connection.close()


@pytest.fixture
def leftovers(other: DyingProcess) -> Callable[[], tuple[int, int]]:
    """How many batches and slices there are."""

    def count(tx: Transaction) -> tuple[int, int]:
        in_both = "SELECT (SELECT count(*) FROM batches), (SELECT count(*) FROM batch_slices)"
        whole, slices = tx.one(in_both)
        return whole, slices

    return lambda: other.does(count)


async def ids(store: SQLiteStore) -> list[str]:
    return sorted(
        job.id for job in await store.jobs.list_jobs(JobFilter(DEFAULT_TENANT, limit=1_000))
    )


async def test_a_batch_that_is_done_leaves_nothing_behind(
    store: SQLiteStore, leftovers: Callable[[], tuple[int, int]]
) -> None:
    await store.jobs.submit_batch([new_job() for _ in range(3 * batches.SLICE)], NOW)
    assert leftovers() == (0, 0)


async def test_nothing_of_a_batch_is_seen_before_it_is_accepted(
    store: SQLiteStore, other: DyingProcess
) -> None:
    other.does(lambda tx: batches.begin(tx, "b1", NOW))
    other.stages("b1", SLICES)
    await store.maintenance.sweep(NOW + 1)
    assert await ids(store) == []


async def test_a_batch_that_was_never_accepted_is_cleared_away_after_a_while(
    store: SQLiteStore, other: DyingProcess, leftovers: Callable[[], tuple[int, int]]
) -> None:
    other.does(lambda tx: batches.begin(tx, "b1", NOW))
    other.stages("b1", SLICES[:2])
    await store.maintenance.sweep(LATER - 1)
    assert leftovers() == (1, 2), "its process may still be writing it"
    await store.maintenance.sweep(LATER)
    assert leftovers() == (0, 0)
    assert await ids(store) == []


@pytest.mark.parametrize("applied", [0, 1, 3, 4])
async def test_a_batch_that_was_accepted_is_finished_by_the_next_sweep(
    store: SQLiteStore,
    other: DyingProcess,
    leftovers: Callable[[], tuple[int, int]],
    applied: int,
) -> None:
    other.does(lambda tx: batches.begin(tx, "b1", NOW))
    other.stages("b1", SLICES)
    other.does(lambda tx: batches.accept(tx, "b1", (), NOW, None))
    for _ in range(applied):
        assert other.does(lambda tx: batches.apply_next_slice(tx, "b1", NOW))
    assert len(await ids(store)) == 3 * applied

    assert (await store.maintenance.sweep(NOW + 1)).batches == 1
    assert await ids(store) == JOBS
    assert leftovers() == (0, 0)
    assert (await store.maintenance.sweep(NOW + 1)).batches == 0


async def test_a_batch_that_two_processes_finish_is_done_once(
    store: SQLiteStore, other: DyingProcess, leftovers: Callable[[], tuple[int, int]]
) -> None:
    other.does(lambda tx: batches.begin(tx, "b1", NOW))
    other.stages("b1", SLICES)
    other.does(lambda tx: batches.accept(tx, "b1", (), NOW, None))
    assert other.does(lambda tx: batches.apply_next_slice(tx, "b1", NOW))
    await store.maintenance.sweep(NOW + 1)
    assert not other.does(lambda tx: batches.apply_next_slice(tx, "b1", NOW))
    assert await ids(store) == JOBS
    assert {job.last_event for job in await store.jobs.list_jobs(JobFilter(DEFAULT_TENANT))} == {1}


async def test_sweeps_go_on_until_every_batch_is_finished(
    store: SQLiteStore, other: DyingProcess
) -> None:
    for batch, slices in (("b1", SLICES[:2]), ("b2", SLICES[2:])):
        other.does(lambda tx, b=batch: batches.begin(tx, b, NOW))  # type: ignore[misc]
        other.stages(batch, slices)
        other.does(lambda tx, b=batch: batches.accept(tx, b, (), NOW, None))  # type: ignore[misc]
    while (await store.maintenance.sweep(NOW + 1)).more:
        continue
    assert await ids(store) == JOBS


async def test_a_process_that_slept_too_long_cannot_accept_what_was_cleared_away(
    store: SQLiteStore, other: DyingProcess
) -> None:
    """A laptop that was closed, a process that was stopped: it goes on where it was."""
    other.does(lambda tx: batches.begin(tx, "b1", NOW))
    other.stages("b1", SLICES[:2])
    await store.maintenance.sweep(LATER)
    with pytest.raises(CoatcheckError):
        other.stages("b1", SLICES[2:], first=2)
    with pytest.raises(CoatcheckError):
        other.does(lambda tx: batches.accept(tx, "b1", (), NOW, None))
    await store.maintenance.sweep(LATER)
    assert await ids(store) == [], "all or none"
