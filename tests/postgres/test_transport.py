"""Values that travel as joined texts arrive as they were, whatever is in them."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.state import State
from coatcheck.store.postgres.database.column_encoding import NOTHING, SEPARATOR, as_texts
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.testing.conformance.arrange import NOW, new_job

pytestmark = pytest.mark.anyio

_TAKEN_APART = """
SELECT id, value FROM unnest(string_to_array($3, $1, $2), string_to_array($4, $1, $2))
AS row_(id, value) WHERE id IS NOT NULL
"""
_pieces = st.sampled_from(["", "a", SEPARATOR, NOTHING, "{}", "ü\n", '"', ",", "NULL"])
_values = st.none() | st.lists(_pieces, max_size=4).map("".join)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(values=st.lists(_values, min_size=1, max_size=6))
async def test_texts_arrive_as_they_were_sent(dsn: str, values: list[str | None]) -> None:
    rows = await taken_apart(dsn, [[str(n) for n in range(len(values))], values])
    assert [row["value"] for row in rows] == values


async def taken_apart(dsn: str, columns: list[list[Any]]) -> list[Any]:
    connection = await asyncpg.connect(dsn)
    try:
        return list(await connection.fetch(_TAKEN_APART, *as_texts(columns)))
    finally:
        await connection.close()


def test_values_that_are_no_texts_are_written_as_the_server_reads_them() -> None:
    columns: list[list[Any]] = [[1, -2], [True, False], [State.QUEUED, State.RUNNING], [None, 3]]
    written = as_texts(columns)
    assert written[2:] == [
        f"1{SEPARATOR}-2",
        f"True{SEPARATOR}False",
        f"queued{SEPARATOR}running",
        f"{NOTHING}{SEPARATOR}3",
    ]


def test_what_is_the_same_for_all_is_sent_once_where_that_is_enough() -> None:
    columns: list[list[Any]] = [["a", "a"], ["a", "a"], ["a", "b"], [None, None]]
    assert as_texts(columns, once=[1, 2])[2:] == [f"a{SEPARATOR}a", "a", f"a{SEPARATOR}b", None]


@pytest.mark.parametrize("text", ["", SEPARATOR, NOTHING, f"{NOTHING}{SEPARATOR}", "ü\t\\"])
async def test_a_job_may_hold_any_text(store: PostgresStore, text: str) -> None:
    jobs = [new_job(labels="{}", correlation_id=text), new_job(correlation_id="other"), new_job()]
    await store.jobs.submit_batch(jobs, NOW)
    await store.jobs.submit(one := new_job(correlation_id=text, traceparent=text), NOW)
    found = [(await store.jobs.get(DEFAULT_TENANT, job.id)).correlation_id for job in [*jobs, one]]
    assert found == [text, "other", None, text]


async def test_jobs_that_differ_in_everything_are_told_apart(store: PostgresStore) -> None:
    first = new_job(queue="a", priority=1, surface="one", tenant="x", public_id="p")
    second = new_job(queue="b", priority=2, surface="two", tenant="y", public_id=None)
    same_id = second._replace(tenant="x", kind="chart", run_at=NOW + 5)
    jobs = [first, second, same_id]
    await store.jobs.submit_batch(jobs, NOW)
    for job in jobs:
        found = await store.jobs.get(job.tenant, job.id)
        assert (found.queue, found.priority, found.surface) == (
            job.queue,
            job.priority,
            job.surface,
        )
        assert (found.kind, found.run_at, found.public_id) == (
            job.kind,
            job.run_at,
            job.public_id or job.id,
        )


async def test_among_new_jobs_one_that_is_there_is_left_alone(store: PostgresStore) -> None:
    there = new_job(priority=1)
    await store.jobs.submit(there, NOW)
    batch = [new_job(), there._replace(priority=2), new_job()]
    await store.jobs.submit_batch(batch, NOW + 1)
    found = [await store.jobs.get(DEFAULT_TENANT, job.id) for job in batch]
    assert [job.priority for job in found] == [0, 1, 0]
    for job in batch:
        assert len(await store.jobs.list_events(DEFAULT_TENANT, job.id, 0, 10)) == 1


async def test_of_two_with_one_id_in_a_batch_the_first_counts(store: PostgresStore) -> None:
    first = new_job(priority=1)
    await store.jobs.submit_batch([first, first._replace(priority=2)], NOW)
    assert (await store.jobs.get(DEFAULT_TENANT, first.id)).priority == 1
