"""Submits that are merged leave exactly what they would have left one by one."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coatcheck.model.job import DEFAULT_TENANT, JobInsert, Terms
from coatcheck.store.sqlite.database import writer as writer_module
from coatcheck.store.sqlite.database.schema import migrate
from coatcheck.store.sqlite.database.transaction import Transaction
from coatcheck.store.sqlite.operations import bulk_insert
from coatcheck.store.sqlite.operations import jobs as job_operations
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.testing.conformance.arrange import NOW, new_job

pytestmark = pytest.mark.anyio

TABLES = ("jobs", "payloads", "events")

_texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
_jobs = st.builds(
    lambda delay, **fields: new_job(run_at=NOW + delay, **fields),
    delay=st.sampled_from([0, 0, -5, 1, 10_000]),
    kind=st.sampled_from(["mail", "chart"]),
    input=_texts,
    tenant=st.sampled_from(["default", "acme"]),
    queue=st.sampled_from(["default", "slow"]),
    surface=st.sampled_from(["api", "render"]),
    priority=st.sampled_from([0, -3]),
    terms=st.sampled_from([Terms(), Terms(1, "fail", 5, 6, 7)]),
    correlation_id=st.none() | _texts,
    traceparent=st.none() | _texts,
)


def rows_after(submit: Callable[[Transaction], Any]) -> dict[str, list[Any]]:
    """Return what a database holds after a submit."""
    with closing(apsw.Connection(":memory:")) as connection:
        migrate(connection)
        transaction = Transaction(connection)
        submit(transaction)
        return {
            table: sorted(map(repr, connection.execute(f"SELECT * FROM {table}")))
            for table in TABLES
        }


@given(st.lists(_jobs, min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_merged_or_not_the_rows_are_the_same(batch: list[JobInsert]) -> None:
    def one_by_one(tx: Transaction) -> None:
        for job in batch:
            job_operations.submit(tx, job, NOW)

    assert all(bulk_insert.can_be_merged(job) for job in batch)
    together = bulk_insert.merge([bulk_insert.PendingSubmit(job, NOW) for job in batch])
    assert rows_after(together) == rows_after(one_by_one)


@pytest.mark.parametrize(
    "fields",
    [
        {"labels": '{"a":"b"}'},
        {"public_id": "p"},
        {"limit_key": "k"},
        {"terms": Terms(deadline_at=NOW)},
    ],
    ids=["labels", "public id", "limit key", "deadline"],
)
def test_what_the_merged_statements_cannot_write_is_not_merged(fields: dict[str, Any]) -> None:
    assert not bulk_insert.can_be_merged(new_job(**fields))


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many submits each merged operation stands for."""
    seen: list[int] = []
    merge = bulk_insert.merge

    def noting(incoming: list[bulk_insert.PendingSubmit]) -> Any:
        seen.append(len(incoming))
        return merge(incoming)

    monkeypatch.setattr(bulk_insert, "merge", noting)
    return seen


async def opened(database: Path) -> SQLiteStore:
    store = SQLiteStore(database)
    await store.open()
    return store


async def test_a_crowd_is_merged_and_one_alone_is_not(database: Path, sizes: list[int]) -> None:
    store = await opened(database)
    await store.jobs.submit(new_job(), NOW)
    assert sizes == []
    crowd = [new_job() for _ in range(50)]
    await asyncio.gather(*(store.jobs.submit(job, NOW) for job in crowd))
    assert sum(sizes) == 50
    assert len(await store.jobs.get_many([(DEFAULT_TENANT, job.id) for job in crowd])) == 50
    await store.close()


async def test_an_id_that_exists_is_left_alone_and_disturbs_nobody(
    database: Path, sizes: list[int]
) -> None:
    store = await opened(database)
    known = new_job(input='"first"')
    await store.jobs.submit(known, NOW)
    crowd = [new_job() for _ in range(10)]
    again = known._replace(input='"second"', kind="chart")
    await asyncio.gather(*(store.jobs.submit(job, NOW) for job in [*crowd, again]))
    assert sizes == [11]
    found = await store.jobs.get_many([(DEFAULT_TENANT, job.id) for job in [*crowd, known]])
    assert len(found) == 11
    assert {job.kind for job in found} == {"mail"}
    assert all(job.last_event == 1 for job in found)
    await store.close()


async def test_a_large_crowd_is_several_turns(
    database: Path, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "MERGED_AT_MOST", 20)
    store = await opened(database)
    crowd = [new_job() for _ in range(50)]
    await asyncio.gather(*(store.jobs.submit(job, NOW) for job in crowd))
    assert sizes == [20, 20, 10]
    await store.close()
