"""The plans PostgreSQL makes for the queries that must not grow slower with the number of jobs.

Each is looked at with 60,000 jobs after ANALYZE, twice: planned for its values, and planned once
for all values, which is what a prepared statement ends up with after a few executions.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import sql as compose

from coatcheck.ids import first_ulid_at
from coatcheck.model.state import State
from coatcheck.store.base import JobFilter
from coatcheck.store.postgres.database.column_encoding import as_texts
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.postgres.list_query import list_query

JOBS = 60_000
NOW = 1_700_000_000_000
SCHEMA = f"plans_{os.getpid()}"
SQL = Statements(SCHEMA)
# So few that a walk through all of them looks cheaper to the server than looking 500 up.
FEW_JOBS = 5_000
SQL_OF_FEW = Statements(f"few_{os.getpid()}")
LARGE = {"jobs", "listing", "events"}

# One job in ten is queued (half of them delayed), one in a hundred runs, the others have ended.
# Most belong to one tenant, as where there is only one, the others to four more.
_FILL = f"""
INSERT INTO "{SCHEMA}".jobs (
  tenant, id, surface, public_id, kind, queue, priority, labels, created_at, max_attempts, on_lost,
  timeout_ms, keep_succeeded_ms, keep_failed_ms, deadline_at, state, claimable, attempt, fence,
  worker, run_at, expires_at, cancel_requested, last_event, input, limited
)
SELECT CASE WHEN n % 7 = 0 THEN 'tenant-' || n % 4 ELSE 'default' END,
  %s || lpad(n::text, 16, '0'), 'api', CASE WHEN n % 3 = 0 THEN 'r_' || n END,
  'kind-' || n % 4, 'queue-' || n % 9, n % 3, '{{}}', %s + n, 3, 'requeue', 1, 1, 1,
  CASE WHEN n % 20 = 0 THEN %s + n END,
  CASE WHEN n % 10 = 0 THEN 'queued' WHEN n % 100 = 1 THEN 'running'
       WHEN n % 3 = 0 THEN 'failed' ELSE 'succeeded' END,
  n % 20 = 0, 1, 1, CASE WHEN n % 100 = 1 THEN 'worker-' || n % 8 END, %s + n,
  CASE WHEN n % 10 <> 0 AND n % 100 <> 1 THEN %s + n END, n % 200 = 1, 2, '{{}}', n % 100 = 1
FROM generate_series(0, %s) AS number(n)
"""
_FILL_OTHERS = f"""
INSERT INTO "{SCHEMA}".listing SELECT tenant, id, kind, queue FROM "{SCHEMA}".jobs;
INSERT INTO "{SCHEMA}".events
SELECT tenant, id, seq, 'state', created_at, '{{}}' FROM "{SCHEMA}".jobs, generate_series(1, 2) seq;
INSERT INTO "{SCHEMA}".workers VALUES ('worker-1', 'here', 1, '[]', 8, 0, 0);
ANALYZE "{SCHEMA}".jobs, "{SCHEMA}".listing, "{SCHEMA}".events, "{SCHEMA}".workers;
"""


@pytest.fixture(scope="module")
def database(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as connection:
        fill(connection, SQL, JOBS)
        fill(connection, SQL_OF_FEW, FEW_JOBS)
        yield connection
        for sql in (SQL, SQL_OF_FEW):
            connection.execute(f'DROP SCHEMA "{sql.schema}" CASCADE'.encode())


def fill(connection: psycopg.Connection[Any], sql: Statements, jobs: int) -> None:
    """Make a schema with so many jobs."""
    connection.execute(f'CREATE SCHEMA "{sql.schema}"'.encode())
    for migration in sql.migrations():
        connection.execute(migration.sql.encode())
    values = (first_ulid_at(NOW)[:10], NOW, NOW, NOW, NOW, jobs - 1)
    text = _FILL.replace(" % ", " %% ").replace(f'"{SCHEMA}"', f'"{sql.schema}"')
    connection.execute(text.encode(), values)
    connection.execute(_FILL_OTHERS.replace(f'"{SCHEMA}"', f'"{sql.schema}"').encode())


class Node(NamedTuple):
    """One step of a plan."""

    kind: str
    table: str | None
    index_name: str | None


class Planner:
    """Asks for the plan of a statement, in one of the two ways it is planned."""

    def __init__(self, connection: psycopg.Connection[Any], *, generic: bool) -> None:
        self._connection = connection
        self._generic = generic

    def plan(self, text: str, values: tuple[Any, ...]) -> list[Node]:
        """Return every step of the plan, without the one seek for the files of each job found."""
        return list(_steps(self._explain(text, values)[0]["Plan"]))

    def _explain(self, text: str, values: tuple[Any, ...]) -> Any:
        if not self._generic:
            cursor = psycopg.RawCursor(self._connection)
            found = cursor.execute(f"EXPLAIN (FORMAT JSON) {text}".encode(), values).fetchone()
            assert found is not None
            return found[0]
        connection = self._connection
        with connection.transaction():
            connection.execute("DEALLOCATE ALL")
            connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            connection.execute(f"PREPARE generic AS {text}".encode())
            # A plan for all values does not look at them.
            nothing = compose.SQL(", ").join([compose.NULL] * len(values))
            execute = compose.SQL("({})").format(nothing) if values else compose.SQL("")
            found = connection.execute(
                compose.SQL("EXPLAIN (FORMAT JSON) EXECUTE generic {}").format(execute)
            ).fetchone()
        assert found is not None
        return found[0]


def _steps(plan: dict[str, Any]) -> Iterator[Node]:
    if plan.get("Parent Relationship") == "SubPlan" and (files := list(_below(plan))):
        assert files == ["artifacts_pkey"], plan
        return
    direction = " Backward" if plan.get("Scan Direction") == "Backward" else ""
    table, index = plan.get("Relation Name"), plan.get("Index Name")
    yield Node(plan["Node Type"] + direction, table, index)
    for inner in plan.get("Plans", ()):
        yield from _steps(inner)


def _below(plan: dict[str, Any]) -> Iterator[str | None]:
    """Yield by which index a part of a plan reads the files of jobs, if it does."""
    if plan.get("Relation Name") == "artifacts":
        yield plan.get("Index Name")
    for inner in plan.get("Plans", ()):
        yield from _below(inner)


@pytest.fixture(params=[False, True], ids=["for its values", "for all values"])
def planner(database: psycopg.Connection[Any], request: pytest.FixtureRequest) -> Planner:
    return Planner(database, generic=request.param)


def indexes_read(plan: list[Node]) -> set[str]:
    """Return the indexes that a plan reads; it fails where a large table is read as a whole."""
    assert not [step for step in plan if step.kind == "Seq Scan" and step.table in LARGE], plan
    return {step.index_name for step in plan if step.index_name is not None} - {"workers_pkey"}


def test_there_are_many_jobs(database: psycopg.Connection[Any]) -> None:
    counts = dict(
        database.execute(
            f'SELECT state, count(*) FROM "{SCHEMA}".jobs GROUP BY state'.encode()
        ).fetchall()
    )
    assert sum(counts.values()) == JOBS
    assert counts["queued"] == JOBS / 10
    assert counts["running"] == JOBS / 100


def pairs(count: int) -> tuple[list[str], list[str]]:
    """Name jobs that exist."""
    prefix = first_ulid_at(NOW)[:10]
    numbers = [n * 11 for n in range(count) if n * 11 % 7]
    return ["default"] * len(numbers), [f"{prefix}{n:016d}" for n in numbers]


def standings(count: int) -> list[Any]:
    """Return what transitions are written with."""
    tenants, ids = pairs(count)
    each: tuple[Any, ...] = ("succeeded", False, None, None, 1, 1, None, 1, 1, 1, 1, False, None, 3)
    events = results = ["{}"] * len(ids)
    return as_texts([tenants, ids, *([value] * len(ids) for value in each), events, results])


def successes(count: int) -> tuple[Any, ...]:
    """Return what jobs that have succeeded are settled with."""
    tenants, ids = pairs(count)
    columns: list[list[Any]] = [tenants, ids, [1] * len(ids), [2] * len(ids), ["{}"] * len(ids)]
    return (*as_texts(columns, (0, 2, 3, 4)), NOW, len(ids))


def steps(count: int) -> tuple[Any, ...]:
    """Return what a step of each job is written with."""
    tenants, ids = pairs(count)
    each: tuple[Any, ...] = (0, "step", "f", None, 0, "succeeded", 1, 1, 1, "1", None, None)
    columns = [[value] * len(ids) for value in (*each, False, False, 0, "{}")]
    jobs = (tenants, ids, [1] * len(ids), [2] * len(ids))
    return (*as_texts([tenants, ids, *columns]), *jobs, NOW)


def one_step() -> tuple[Any, ...]:
    """Return what one step of one job is written with."""
    tenants, ids = pairs(2)
    each: tuple[Any, ...] = (0, "step", "f", None, 0, "succeeded", 1, 1, 1, "1", None, None)
    return (tenants[0], ids[0], *each, False, False, "{}", 1, 2, NOW)


KINDS = ["kind-0", "kind-1"]
CLAIM = ("worker-1", KINDS, NOW, 8, False)
BESIDE = (*CLAIM, KINDS, ["kind-9"])
LANE = "\x1f".join(("kind-0", "queue-0", "1000", "tenant-0", ""))
IN_LANES = (*BESIDE, ["queue-0"] * 2, [1, 2], [first_ulid_at(NOW)] * 2)
CLAIMED_BY = {"jobs_claimable", "jobs_in_lanes", "jobs_delayed", "jobs_waiting", "endpoints_pkey"}
KEYS = {"jobs_pkey"}
# With a look whether somebody wants to hear of it.
TOLD = KEYS | {"endpoints_pkey"}
NAMED: list[tuple[str, tuple[Any, ...], set[str]]] = [
    ("claim_everywhere", CLAIM, CLAIMED_BY),
    ("claim_beside_others", BESIDE, CLAIMED_BY),
    ("claim_in_lanes", IN_LANES, CLAIMED_BY),
    (
        "claim_in_turn",
        ("worker-1", ["default"], NOW, 8, True, ["x"], KINDS, ["queue-0"], "{}"),
        {"jobs_delayed", "jobs_waiting", "jobs_pkey", "endpoints_pkey"},
    ),
    ("lanes", (KINDS,), {"jobs_claimable"}),
    ("before_turns", (KINDS, "worker-1"), {"jobs_claimable", "jobs_delayed", "jobs_waiting"}),
    ("runs_of_lanes", (KINDS, [LANE], ["kind-1"], ["queue-1"], 8), {"jobs_in_lanes"}),
    ("lock_heads", ([LANE], [""], 8, NOW), {"jobs_in_lanes"}),
    ("lock_plain_heads", (["kind-0"], ["queue-0"], [1], [""], 8, NOW), {"jobs_claimable"}),
    (
        "ahead_of",
        (KINDS, "queue-0", "1000", "default", "x", 1_000, 0),
        {"jobs_claimable", "jobs_in_lanes"},
    ),
    (
        "how_limits_stand",
        (["kind-0"], [8], ["queue-0"], [8], ["kind-0"]),
        {"jobs_limited", "jobs_limited_by_queue", "rates_pkey"},
    ),
    ("running_of_keys", (["kind-0"], ["default"], ["x"], [8]), {"jobs_limited"}),
    ("adopt_running", (KINDS,), {"jobs_running"}),
    ("promote_due", (NOW + 500, 1_000), {"jobs_delayed", "jobs_pkey"}),
    ("held_by", ("worker-1",), {"jobs_running"}),
    ("past_deadline", (NOW + 500, 200), {"jobs_with_deadline"}),
    ("running_past_deadline", (NOW + 500, 200), {"jobs_running"}),
    ("past_retention", (NOW + 500, 200, 0), {"jobs_expiring", "jobs_pkey", "deliveries_pkey"}),
    ("waiting_due", (NOW + 500, 1_000), {"jobs_waiting"}),
    ("children_to_cancel", ("tenant-0", "x", 200), {"jobs_by_parent"}),
    ("job_by_id", ("default", pairs(2)[1][0]), KEYS),
    ("job_by_public_id", ("default", "r_3"), {"jobs_by_public_id"}),
    ("events_after", ("default", pairs(2)[1][0], 0, 100), {"events_pkey", "jobs_pkey"}),
]
MANY: list[tuple[str, set[str]]] = [
    ("lock_standings", KEYS),
    ("jobs_by_ids", KEYS),
    ("delete_jobs", KEYS),
    ("delete_events", {"events_pkey"}),
]


@pytest.mark.parametrize(("name", "values", "indexes"), NAMED, ids=[name for name, *_ in NAMED])
def test_a_query_seeks_in_the_index_made_for_it(
    planner: Planner, name: str, values: tuple[Any, ...], indexes: set[str]
) -> None:
    plan = planner.plan(getattr(SQL, name), values)
    assert indexes_read(plan) == indexes, plan


@pytest.mark.parametrize("count", [2, 500], ids=["a few", "many"])
@pytest.mark.parametrize(("name", "indexes"), MANY, ids=[name for name, _ in MANY])
def test_many_jobs_are_found_by_their_keys(
    planner: Planner, name: str, indexes: set[str], count: int
) -> None:
    plan = planner.plan(getattr(SQL, name), pairs(count))
    assert indexes_read(plan) == indexes, plan


@pytest.mark.parametrize("count", [2, 500], ids=["a few", "many"])
def test_transitions_and_reports_find_their_jobs_by_key(planner: Planner, count: int) -> None:
    plan = planner.plan(SQL.write_transitions, (*standings(count), NOW))
    assert indexes_read(plan) == TOLD, plan
    plan = planner.plan(SQL.settle_as_claimed, (*standings(count), NOW, count))
    assert indexes_read(plan) == TOLD, plan
    plan = planner.plan(SQL.succeed_as_claimed, successes(count))
    assert indexes_read(plan) == TOLD, plan
    tenants, ids = pairs(count)
    nothing = [None] * len(ids)
    plan = planner.plan(SQL.write_reports, (tenants, ids, nothing, nothing, [3] * len(ids)))
    assert indexes_read(plan) == KEYS, plan
    plan = planner.plan(SQL.record_as_claimed, steps(count))
    assert indexes_read(plan) <= {*KEYS, "jobs_by_state"}, plan
    plan = planner.plan(SQL.record_one_as_claimed, one_step())
    assert indexes_read(plan) <= {*KEYS, "jobs_by_state"}, plan


@pytest.mark.parametrize("count", [2, 500], ids=["a few", "many"])
def test_a_settle_looks_its_jobs_up_also_where_there_are_few(planner: Planner, count: int) -> None:
    plan = planner.plan(SQL_OF_FEW.succeed_as_claimed, successes(count))
    assert indexes_read(plan) == TOLD, plan
    plan = planner.plan(SQL_OF_FEW.settle_as_claimed, (*standings(count), NOW, count))
    assert indexes_read(plan) == TOLD, plan


@pytest.mark.parametrize("name", ["past_deadline", "past_retention", "promote_due"])
def test_what_is_due_is_read_in_order_and_not_sorted(planner: Planner, name: str) -> None:
    for now in (NOW, NOW + 500, NOW + JOBS):
        values = (now, 200, 0) if name == "past_retention" else (now, 200)
        plan = planner.plan(getattr(SQL, name), values)
        assert not [step for step in plan if "Sort" in step.kind], plan


def test_a_page_of_a_long_log_reads_no_more_events_than_it_shows(planner: Planner) -> None:
    plan = planner.plan(SQL.events_after, ("default", pairs(2)[1][0], 0, 100))
    [read] = [at for at, step in enumerate(plan) if step.index_name == "events_pkey"]
    assert plan[read].kind == "Index Scan", plan
    assert plan[read - 1].kind == "Limit", plan


def test_whether_anybody_is_to_be_told_is_looked_up_once(database: psycopg.Connection[Any]) -> None:
    for text, values in (
        (SQL.claim_everywhere, CLAIM),
        (SQL.claim_in_lanes, IN_LANES),
        (SQL.write_transitions, (*standings(2), NOW)),
        (SQL.settle_as_claimed, (*standings(2), NOW, 2)),
        (SQL.succeed_as_claimed, successes(2)),
    ):
        cursor = psycopg.RawCursor(database)
        found = cursor.execute(f"EXPLAIN {text}".encode(), values).fetchall()
        plan = "\n".join(line for (line,) in found)
        before_events = plan.partition("Insert on deliveries")[2].partition("CTE Scan on told")[0]
        assert "One-Time Filter" in before_events, plan


def test_the_lanes_of_a_claim_are_range_reads_that_are_never_sorted_inside(
    planner: Planner,
) -> None:
    plan = planner.plan(SQL.claim_everywhere, CLAIM)
    locked = [at for at, step in enumerate(plan) if step.kind == "LockRows"][-1]
    assert plan[locked + 1].index_name == "jobs_claimable", plan
    for name, values in (
        ("claim_in_lanes", IN_LANES),
        ("lock_heads", ([LANE], [""], 8, NOW)),
        ("lock_plain_heads", (["kind-0"], ["queue-0"], [1], [""], 8, NOW)),
    ):
        plan = planner.plan(getattr(SQL, name), values)
        assert not [step for step in plan if step.kind == "Bitmap Heap Scan"], plan
    plan = planner.plan(SQL.claim_in_lanes, IN_LANES)
    locked = [at for at, step in enumerate(plan) if step.kind == "LockRows"][-1]
    assert plan[locked + 1].index_name == "jobs_claimable", plan


def test_the_queues_are_counted_from_partial_indexes(planner: Planner) -> None:
    plan = planner.plan(SQL.queue_status, ())
    assert indexes_read(plan) <= {
        "jobs_claimable",
        "jobs_in_lanes",
        "jobs_delayed",
        "jobs_running",
        "jobs_waiting",
        "queues_pkey",
    }


FILTERS = list(
    itertools.product(
        ("default", "tenant-1"),
        (None, State.QUEUED, State.RUNNING, State.SUCCEEDED, State.CANCELLED),
        (None, "kind-0", "kind-none"),
        (None, "queue-0"),
        (None, NOW, NOW + JOBS - 10),
    )
)


def filters_of(which: JobFilter) -> list[str]:
    by = {"state": which.state, "kind": which.kind, "queue": which.queue}
    return [name for name, value in by.items() if value]


PAGES = pytest.mark.parametrize(
    "before", [None, NOW + 5, NOW + JOBS], ids=["first page", "last page", "second page"]
)


def filters(before: int | None) -> Iterator[JobFilter]:
    last_seen = None if before is None else first_ulid_at(before)
    for tenant, state, kind, queue, created_after in FILTERS:
        yield JobFilter(tenant, state, kind, queue, created_after, last_seen)


@PAGES
def test_a_listing_walks_one_index_from_its_end(planner: Planner, before: int | None) -> None:
    for which in filters(before):
        by = filters_of(which)
        if len(by) <= 1:
            plan = planner.plan(*list_query(SQL, which))
            if by in (["kind"], ["queue"]):
                walk = [
                    ("Nested Loop", None),
                    ("Index Scan Backward", f"listing_by_{by[0]}"),
                    ("Index Scan", "jobs_pkey"),
                ]
            else:
                walk = [("Index Scan Backward", "jobs_by_state" if by else "jobs_pkey")]
            assert [(step.kind.replace(" Only", ""), step.index_name) for step in plan] == [
                ("Limit", None),
                *walk,
            ], which


@PAGES
def test_with_several_filters_their_indexes_may_be_combined(
    planner: Planner, before: int | None
) -> None:
    """Where few jobs are expected to fit, it is cheaper to fetch and sort those."""
    for which in filters(before):
        by = filters_of(which)
        if len(by) > 1:
            plan = planner.plan(*list_query(SQL, which))
            good = {"jobs_by_state", "jobs_pkey"} | {f"listing_by_{name}" for name in by}
            if which.state is State.RUNNING:
                good.add("jobs_running")
            read = indexes_read(plan)
            assert read, (which, plan)
            assert read <= good, (which, plan)


@PAGES
def test_what_a_job_has_spawned_is_found_by_its_own_index(
    planner: Planner, before: int | None
) -> None:
    for which in filters(before):
        plan = planner.plan(*list_query(SQL, which._replace(parent="x")))
        assert indexes_read(plan) == {"jobs_by_parent"}, (which, plan)


def test_a_common_combination_walks_one_index_whatever_the_others_are(
    database: psycopg.Connection[Any],
) -> None:
    planner = Planner(database, generic=False)
    which = JobFilter("default", State.SUCCEEDED, "kind-1", "queue-1")
    plan = planner.plan(*list_query(SQL, which))
    walk = ["Limit", "Nested Loop", "Index Scan Backward", "Index Scan"]
    assert [step.kind for step in plan] == walk, plan
