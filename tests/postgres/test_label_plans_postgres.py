"""Looking for labels among 100,000 jobs: PostgreSQL reads what a page needs, not all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql as compose

from coatcheck.ids import first_ulid_at
from coatcheck.model.state import State
from coatcheck.store.base import JobFilter
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.postgres.list_query import list_query
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.testing.conformance.arrange import new_job

JOBS = 100_000
NOW = 1_700_000_000_000
PAGE = 50
SCHEMA = f"labels_{os.getpid()}"
SQL = Statements(SCHEMA)

# Every job has a common label, one in a thousand a rare one, the oldest hundred an old one.
_FILL = f"""
INSERT INTO "{SCHEMA}".jobs (
  tenant, id, surface, kind, queue, priority, labels, created_at, max_attempts, on_lost,
  timeout_ms, keep_succeeded_ms, keep_failed_ms, state, claimable, attempt, fence, run_at,
  cancel_requested, last_event, input
)
SELECT 'most', %s || lpad(n::text, 16, '0'), 'api', 'kind-' || n %% 4, 'default', 0,
  json_strip_nulls(json_build_object('env', 'live', 'team', 't' || n %% 10,
    'rare', CASE WHEN n %% 1000 = 0 THEN 'yes' END, 'old', CASE WHEN n < 100 THEN 'yes' END))::text,
  %s + n, 3, 'requeue', 1, 1, 1, CASE WHEN n %% 100 = 0 THEN 'failed' ELSE 'succeeded' END,
  false, 1, 1, %s + n, false, 2, '{{}}'
FROM generate_series(0, %s) AS number(n)
"""


@pytest.fixture(scope="module")
def database(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as connection:
        connection.execute(f'CREATE SCHEMA "{SCHEMA}"')
        for migration in SQL.migrations():
            connection.execute(migration.sql.encode())
        fill = (first_ulid_at(NOW)[:10], NOW, NOW, JOBS - 1)
        connection.execute(_FILL.encode(), fill)
        connection.execute(f'ANALYZE "{SCHEMA}".jobs, "{SCHEMA}".labels'.encode())
        yield connection
        connection.execute(f'DROP SCHEMA "{SCHEMA}" CASCADE')


def rows_read(connection: psycopg.Connection[Any], which: JobFilter) -> int:
    """Return how many rows of tables and indexes a listing looked at, planned as the store does."""
    text, values = list_query(SQL, which)
    with connection.transaction():
        connection.execute("DEALLOCATE ALL")
        connection.execute(SQL.plan_for_values.encode())
        connection.execute(f"PREPARE listing AS {text}".encode())
        arguments = compose.SQL(", ").join(map(compose.Literal, values))
        explain = compose.SQL("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE listing ({})")
        found = connection.execute(explain.format(arguments)).fetchone()
    assert found is not None
    return _rows(found[0][0]["Plan"])


def _rows(plan: dict[str, Any]) -> int:
    own = 0
    if "Scan" in plan["Node Type"]:
        seen = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        own = round(seen * plan["Actual Loops"])
    return own + sum(_rows(inner) for inner in plan.get("Plans", ()))


CASES: list[tuple[tuple[tuple[str, str], ...], int, dict[str, Any]]] = [
    ((("env", "live"),), 0, {}),
    ((("rare", "yes"),), 0, {}),
    ((("old", "yes"),), 0, {}),
    ((("none", "such"),), 0, {}),
    ((("env", "live"), ("rare", "yes")), 0, {}),
    ((("rare", "yes"), ("env", "live")), 0, {}),
    ((("env", "live"),), JOBS // 2, {}),
    ((("old", "yes"),), JOBS // 2, {}),
    ((("rare", "yes"),), 0, {"state": State.FAILED}),
    ((("old", "yes"),), 0, {"kind": "kind-1"}),
    ((("env", "live"),), 0, {"created_after": NOW + JOBS - 60}),
]


@pytest.mark.parametrize(("labels", "before", "other"), CASES)
def test_a_page_of_labelled_jobs_reads_little(
    database: psycopg.Connection[Any],
    labels: tuple[tuple[str, str], ...],
    before: int,
    other: dict[str, Any],
) -> None:
    last = f"{first_ulid_at(NOW)[:10]}{before:016d}" if before else None
    which = JobFilter("most", labels=labels, before=last, limit=PAGE, **other)
    assert rows_read(database, which) < JOBS / 50


@pytest.mark.anyio
async def test_the_store_plans_for_the_values_it_is_given(dsn: str, schema: str) -> None:
    """After a few of them PostgreSQL would plan once for all, and begin with the wrong label."""
    store = PostgresStore(dsn, schema=schema, connections=1, poll_s=60)
    await store.open()
    try:
        job = new_job(labels='{"env":"live"}')
        await store.jobs.submit(job, NOW)
        for _ in range(10):
            which = JobFilter(job.tenant, labels=(("env", "live"),))
            assert [found.id for found in await store.jobs.list_jobs(which)] == [job.id]
        plans = await store._database.fetch(
            "SELECT generic_plans, custom_plans FROM pg_prepared_statements "
            "WHERE statement LIKE $1",
            "%labelled.job_id%",
        )
        assert [tuple(row) for row in plans] == [(0, 10)]
    finally:
        await store.close()
