"""The plans SQLite makes for the queries that must not grow slower with the number of jobs.

Each is looked at with 60,000 jobs, as it comes and after ANALYZE, which an operator may run: no
scan of a whole table, no sorting, and the index that was made for it.
"""

import itertools
import json
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import apsw
import pytest

from coatcheck.ids import first_ulid_at
from coatcheck.model.state import State
from coatcheck.store.base import JobFilter
from coatcheck.store.sqlite.database.schema import migrate
from coatcheck.store.sqlite.database.statements import SQL
from coatcheck.store.sqlite.list_query import list_query

JOBS = 60_000
NOW = 1_700_000_000_000

# One job in ten is queued (half of them delayed), one in a hundred runs, the others have ended.
_FILL = """
WITH RECURSIVE number (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n < :jobs - 1)
INSERT INTO jobs (
  tenant, id, surface, public_id, kind, queue, priority, labels, created_at, max_attempts, on_lost,
  timeout_ms, keep_succeeded_ms, keep_failed_ms, deadline_at, state, claimable, attempt, fence,
  worker, run_at, expires_at, cancel_requested, last_event
)
SELECT iif(n % 40, 'tenant-' || (n % 5), 'default'), :prefix || printf('%016d', n), 'api',
  iif(n % 3, NULL, 'r_' || n),
  'kind-' || (n % 4), 'queue-' || (n % 7), n % 3, '{}', :now + n, 3, 'requeue', 1, 1, 1,
  iif(n % 20, NULL, :now + n),
  CASE WHEN n % 10 = 0 THEN 'queued' WHEN n % 100 = 1 THEN 'running'
       WHEN n % 3 = 0 THEN 'failed' ELSE 'succeeded' END,
  n % 20 = 0, 1, 1, iif(n % 100 = 1, 'worker-' || (n % 8), NULL), :now + n,
  iif(n % 10 = 0 OR n % 100 = 1, NULL, :now + n), n % 200 = 1, 2
FROM number
"""


@pytest.fixture(scope="module", params=["as it comes", "after ANALYZE"])
def database(request: pytest.FixtureRequest) -> Iterator[apsw.Connection]:
    with closing(apsw.Connection(":memory:")) as connection:
        migrate(connection)
        prefix = first_ulid_at(NOW)[:10]
        with connection:
            connection.execute(_FILL, {"jobs": JOBS, "prefix": prefix, "now": NOW})
            connection.execute(
                "INSERT INTO payloads SELECT tenant, id, 'input', '{}' FROM jobs UNION ALL "
                "SELECT tenant, id, 'result', '{}' FROM jobs WHERE state = 'succeeded'"
            )
            connection.execute(
                "INSERT INTO events SELECT tenant, jobs.id, seq.value, 'state', created_at, '{}' "
                "FROM jobs, json_each('[1, 2]') AS seq"
            )
        if request.param == "after ANALYZE":
            connection.execute("ANALYZE")
        yield connection


def plan(connection: apsw.Connection, sql: str, values: tuple[Any, ...]) -> list[str]:
    return [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + sql, values)]


def large_tables(steps: list[str]) -> list[str]:
    return [step for step in steps if re.match(r"(SCAN|SEARCH) (jobs|events|payloads)\b", step)]


def test_there_are_many_jobs(database: apsw.Connection) -> None:
    counts = dict(database.execute("SELECT state, count(*) FROM jobs GROUP BY state"))
    assert sum(counts.values()) == JOBS
    assert counts["queued"] == JOBS / 10
    assert counts["running"] == JOBS / 100


KINDS = json.dumps(["kind-0", "kind-1"])
PAIRS = json.dumps([["tenant-0", "x"], ["tenant-1", "y"]])
NAMED = [
    ("is_crowded", (KINDS,), {"jobs_in_lanes"}),
    ("plain_lines", (KINDS,), {"jobs_claimable"}),
    ("plain_candidates", ("kind-0", "queue-0", NOW, 8), {"jobs_claimable"}),
    ("next_plain_lane", ("kind-0", "queue-0", 1), {"jobs_claimable"}),
    ("plain_candidates_of", ("kind-0", "queue-0", 1, "", NOW, 8), {"jobs_claimable"}),
    ("lanes", (KINDS,), {"jobs_in_lanes"}),
    ("next_lane", ("kind-0", "kind-1"), {"jobs_in_lanes"}),
    ("run_of_lanes", ("kind-0", "kind-1", 8), {"jobs_in_lanes"}),
    ("candidates", ("kind-0", "", NOW, 8), {"jobs_in_lanes"}),
    (
        "ahead_of",
        (KINDS, "queue-0", "1000", "tenant-0", "x", 1_000, 0),
        {"jobs_claimable", "jobs_in_lanes"},
    ),
    ("running_of_kind", ("kind-0", 8), {"jobs_limited"}),
    ("running_of_key", ("kind-0", "tenant-0", "x", 8), {"jobs_limited"}),
    ("running_of_queue", ("queue-0", 8), {"jobs_limited_by_queue"}),
    ("adopt_running", (KINDS,), {"jobs_running"}),
    ("next_due", (), {"jobs_delayed", "jobs_waiting"}),
    ("waiting_due", (NOW, 1_000), {"jobs_waiting"}),
    ("children_to_cancel", ("tenant-0", "x", 200), {"jobs_by_parent"}),
    ("begin_cascade", ("tenant-0", "x"), {"jobs_by_parent"}),
    ("promote_due", (NOW, 1_000), {"jobs_delayed", "INTEGER PRIMARY KEY"}),
    ("held_by", ("worker-1",), {"jobs_running"}),
    ("past_deadline", (NOW, 200), {"jobs_with_deadline"}),
    ("running_past_deadline", (NOW, 200), {"jobs_running"}),
    ("past_retention", (NOW, 200), {"jobs_expiring"}),
    (
        "anything_to_sweep",
        (NOW, NOW, NOW, NOW),
        {"jobs_with_deadline", "jobs_running", "jobs_expiring", "jobs_with_input_until"},
    ),
    ("status_of", ("tenant-0", "x"), {"jobs_by_id"}),
    ("job_by_id", ("tenant-0", "x"), {"jobs_by_id", "PRIMARY KEY"}),
    ("job_by_public_id", ("tenant-0", "r_3"), {"jobs_by_public_id", "PRIMARY KEY"}),
    ("jobs_by_ids", (PAIRS,), {"jobs_by_id", "PRIMARY KEY"}),
    ("payload", ("tenant-0", "x", "input"), {"PRIMARY KEY"}),
    ("events_after", ("tenant-0", "x", 0, 100), {"PRIMARY KEY"}),
    ("delete_events", ("tenant-0", "x"), {"PRIMARY KEY"}),
    ("delete_payloads", ("tenant-0", "x"), {"PRIMARY KEY"}),
]


@pytest.mark.parametrize(("name", "values", "indexes"), NAMED, ids=[name for name, *_ in NAMED])
def test_a_query_seeks_in_the_index_made_for_it(
    database: apsw.Connection, name: str, values: tuple[Any, ...], indexes: set[str]
) -> None:
    steps = plan(database, getattr(SQL, name), values)
    used = set()
    for step in large_tables(steps):
        assert step.startswith("SEARCH"), steps
        used.add(re.sub(r"^.* USING (COVERING )?(INDEX )?|( \(.*)?( LEFT-JOIN)?$", "", step))
    assert used == indexes, steps
    assert not any("TEMP B-TREE" in step for step in steps), steps


FILTERS = list(
    itertools.product((None, State.QUEUED), (None, "kind-0"), (None, "queue-0"), (None, NOW))
)


def listing_index(connection: apsw.Connection, which: JobFilter) -> str:
    """Return the one index a listing walks; it fails where there is more to its plan than that."""
    sql, values = list_query(which)
    step, *files = plan(connection, sql, values)
    assert files == [
        "CORRELATED SCALAR SUBQUERY 1",
        "SEARCH artifacts USING PRIMARY KEY (tenant=? AND job_id=?)",
    ]
    found = re.match(r"SEARCH jobs USING INDEX (\w+) \(", step)
    assert found, step
    return found[1]


def good_indexes(which: JobFilter) -> set[str]:
    """With several filters any of their indexes will do: each is in the order of the ids."""
    by = {"state": which.state, "kind": which.kind, "queue": which.queue}
    return {f"jobs_by_{name}" for name, value in by.items() if value} or {"jobs_by_id"}


@pytest.mark.parametrize(("state", "kind", "queue", "created_after"), FILTERS)
# R23: by state and by time of creation.
def test_a_listing_walks_one_index_from_its_end(
    database: apsw.Connection,
    state: State | None,
    kind: str | None,
    queue: str | None,
    created_after: int | None,
) -> None:
    which = JobFilter("tenant-0", state, kind, queue, created_after)
    assert listing_index(database, which) in good_indexes(which)


@pytest.mark.parametrize(("state", "kind", "queue", "created_after"), FILTERS)
def test_so_does_every_later_page_of_it(
    database: apsw.Connection,
    state: State | None,
    kind: str | None,
    queue: str | None,
    created_after: int | None,
) -> None:
    which = JobFilter("tenant-0", state, kind, queue, created_after, first_ulid_at(NOW + 5))
    assert listing_index(database, which) in good_indexes(which)


@pytest.mark.parametrize(("state", "kind", "queue", "created_after"), FILTERS)
def test_what_a_job_has_spawned_is_found_by_its_own_index(
    database: apsw.Connection,
    state: State | None,
    kind: str | None,
    queue: str | None,
    created_after: int | None,
) -> None:
    which = JobFilter("tenant-0", state, kind, queue, created_after, parent="x")
    assert listing_index(database, which) == "jobs_by_parent"


def test_the_queues_are_counted_from_partial_indexes(database: apsw.Connection) -> None:
    steps = plan(database, SQL.queue_status, ())
    read = {
        re.sub(r"^(SCAN|SEARCH) jobs USING (COVERING )?INDEX | \(lane>\?\)$", "", step)
        for step in large_tables(steps)
    }
    assert read == {"jobs_claimable", "jobs_in_lanes", "jobs_delayed", "jobs_running"}
    # Of what can be claimed, which may be a million, nothing is sorted to be counted.
    ready = steps[steps.index("LEFT-MOST SUBQUERY") : steps.index("USE TEMP B-TREE FOR GROUP BY")]
    assert {"jobs_claimable", "jobs_in_lanes"} <= set(" ".join(ready).split())


def test_finished_jobs_are_outside_the_indexes_that_claims_and_sweeps_read(
    database: apsw.Connection,
) -> None:
    for index, condition in (
        ("jobs_claimable", "claimable = 1 AND lane IS NULL"),
        ("jobs_in_lanes", "claimable = 1 AND lane IS NOT NULL"),
        ("jobs_delayed", "state = 'queued' AND claimable = 0"),
        ("jobs_running", "state = 'running'"),
        ("jobs_with_deadline", "deadline_at IS NOT NULL AND state IN ('queued', 'waiting')"),
    ):
        found = f"SELECT count(*) FROM jobs INDEXED BY {index} WHERE {condition}"
        assert 0 < database.execute(found).get < JOBS / 9


def test_a_listing_by_label_walks_the_labels_own_index(database: apsw.Connection) -> None:
    sql, values = list_query(JobFilter("t", labels=(("a", "b"), ("c", "d")), before="x"))
    steps = plan(database, sql, values)
    assert steps[0].startswith("SEARCH labels USING PRIMARY KEY (tenant=? AND name=? AND value=?")
    assert not any("SCAN" in step or "TEMP B-TREE" in step for step in steps)
