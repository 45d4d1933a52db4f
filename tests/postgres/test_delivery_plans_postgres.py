"""The outbox, with very much that waits and more that is over: PostgreSQL reads the first of each
lane, and of what is handed out only that, planned for its values as well as once for all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import sql as compose

from coatcheck.store.postgres.database.statements import Statements

JOBS = 40_000
LANES = 201
DEAD = 10_000  # wait in one lane
NOW = 1_700_000_000_000
SCHEMA = f"outbox_{os.getpid()}"
SQL = Statements(SCHEMA)

# Every job has an endpoint of its own and was told of twice. Of the second times a quarter wait in
# one lane, one in forty in two hundred others; the rest is over.
_FILL = f"""
INSERT INTO "{SCHEMA}".jobs (
  tenant, id, surface, kind, queue, priority, labels, created_at, max_attempts, on_lost,
  timeout_ms, keep_succeeded_ms, keep_failed_ms, state, claimable, attempt, fence, run_at,
  cancel_requested, last_event, input
)
SELECT 'tenant-' || n % 3, 'job-' || n, 'api', 'kind-0', 'default', 0, '{{}}', {NOW}, 3, 'requeue',
  1, 1, 1, 'succeeded', false, 1, 1, {NOW}, false, 3, '{{}}'
FROM generate_series(0, {JOBS - 1}) AS number(n);
INSERT INTO "{SCHEMA}".endpoints
SELECT tenant, id, '', 'https://example.com/', CASE
  WHEN substr(id, 5)::int < {DEAD} THEN 'lane-dead' ELSE 'lane-' || substr(id, 5)::int % {LANES - 1}
  END, 'succeeded', {NOW}, ''
FROM "{SCHEMA}".jobs;
INSERT INTO "{SCHEMA}".deliveries
SELECT tenant, job_id, seq, '', lane, 'job.running', {NOW}, '{{}}',
  CASE WHEN waits THEN 'pending' ELSE 'delivered' END, 0, 0,
  CASE WHEN waits THEN {NOW} + substr(job_id, 5)::int END, '[]'
FROM "{SCHEMA}".endpoints, generate_series(2, 3) AS seq, LATERAL (
  SELECT seq = 3 AND (lane = 'lane-dead' OR substr(job_id, 5)::int >= {JOBS - 1_000}) AS waits
) AS wait;
ANALYZE "{SCHEMA}".jobs, "{SCHEMA}".endpoints, "{SCHEMA}".deliveries;
"""


class Read(NamedTuple):
    """What a statement looked at, and returned."""

    rows: int
    found: int
    whole_tables: list[str]


class Explainer:
    """Runs a statement without a trace, planned in one of the two ways."""

    def __init__(self, connection: psycopg.Connection[Any], mode: str) -> None:
        self._connection = connection
        self._mode = mode

    def run(self, text: str, *values: Any) -> Read:
        connection = self._connection
        with connection.transaction(force_rollback=True):
            connection.execute("DEALLOCATE ALL")
            connection.execute(f"SET LOCAL plan_cache_mode = {self._mode}".encode())
            connection.execute(f"PREPARE asked AS {text}".encode())
            given = compose.SQL(", ").join(map(compose.Literal, values))
            execute = compose.SQL("({})").format(given) if values else compose.SQL("")
            explain = compose.SQL("EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE asked {}")
            answer = connection.execute(explain.format(execute)).fetchone()
        assert answer is not None
        plan = answer[0][0]["Plan"]
        steps = list(_steps(plan))
        whole = [step["Relation Name"] for step in steps if step["Node Type"] == "Seq Scan"]
        return Read(sum(map(_rows, steps)), plan["Actual Rows"], whole)


def _steps(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from _steps(inner)


def _rows(step: dict[str, Any]) -> int:
    """Return how many rows a step has looked at in a table or an index."""
    if "Relation Name" not in step and "Index Name" not in step:
        return 0
    removed = sum(step.get(f"Rows Removed by {why}", 0) for why in ("Filter", "Index Recheck"))
    return int((step["Actual Rows"] + removed) * step["Actual Loops"])


@pytest.fixture(scope="module")
def database(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as connection:
        connection.execute(f'CREATE SCHEMA "{SCHEMA}"'.encode())
        for migration in SQL.migrations():
            connection.execute(migration.sql.encode())
        connection.execute(_FILL.encode())
        yield connection
        connection.execute(f'DROP SCHEMA "{SCHEMA}" CASCADE'.encode())


@pytest.fixture(params=["force_custom_plan", "force_generic_plan"])
def explainer(database: psycopg.Connection[Any], request: pytest.FixtureRequest) -> Explainer:
    return Explainer(database, request.param)


def test_of_each_lane_the_first_is_read_whatever_waits(explainer: Explainer) -> None:
    read = explainer.run(SQL.delivery_lanes)
    assert read.found == LANES
    assert read.whole_tables == []
    assert read.rows <= 3 * LANES, read


@pytest.mark.parametrize(
    "wanted",
    [
        {"lane-dead": 1},
        {"lane-dead": 32},
        {f"lane-{n}": 1 for n in range(LANES - 1)},
        {"lane-dead": 32, **{f"lane-{n}": 5 for n in range(20)}},
    ],
    ids=["one", "many of one lane", "one of many lanes", "both"],
)
def test_only_what_is_handed_out_is_read(explainer: Explainer, wanted: dict[str, int]) -> None:
    values = (list(wanted), list(wanted.values()), NOW + JOBS, NOW + 2 * JOBS)
    read = explainer.run(SQL.claim_deliveries, *values)
    assert read.found == sum(wanted.values())
    assert read.whole_tables == []
    # Found in its lane, taken, and looked up with its job and its endpoint.
    assert read.rows <= 5 * read.found, read


def test_what_became_of_them_is_written_by_key(explainer: Explainer) -> None:
    jobs = range(256)
    values = (
        [f"tenant-{n % 3}" for n in jobs],
        [f"job-{n}" for n in jobs],
        [3 for _ in jobs],
        ["" for _ in jobs],
        [0 for _ in jobs],
        ["delivered" for _ in jobs],
        [None for _ in jobs],
        ["[]" for _ in jobs],
    )
    read = explainer.run(SQL.note_deliveries, *values)
    assert read.found == len(jobs)
    assert read.whole_tables == []
    assert read.rows <= 2 * len(jobs), read
