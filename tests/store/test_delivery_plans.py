"""The outbox, with very much that waits and more that is over: SQLite seeks the first of each lane,
as it comes and after ANALYZE, which an operator may run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import apsw
import pytest

from coatcheck.store.sqlite.database.schema import migrate
from coatcheck.store.sqlite.database.statements import SQL

_FILL = """
WITH RECURSIVE number (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n < 39999)
INSERT INTO deliveries
SELECT 'tenant-' || (n % 3), 'job-' || n, 2, '', iif(n < 10000, 'dead', 'lane-' || (n % 200)),
  'job.running', 1, '{}', 'pending', 0, 0, iif(n < 10000 OR n >= 39000, n, NULL), '[]'
FROM number
"""
NAMED: list[tuple[str, tuple[Any, ...], set[str]]] = [
    ("delivery_lanes", (), {"COVERING INDEX deliveries_due", "PRIMARY KEY"}),
    ("due_in_lane", ("dead", 50_000, 32), {"COVERING INDEX deliveries_due"}),
    ("take_delivery", (1, "tenant-0", "job-0", 2, ""), {"PRIMARY KEY"}),
    ("note_delivery", ("delivered", 1, "[]", "tenant-0", "job-0", 2, "", 1), {"PRIMARY KEY"}),
]


@pytest.fixture(scope="module", params=["as it comes", "after ANALYZE"])
def database(request: pytest.FixtureRequest) -> Iterator[apsw.Connection]:
    with closing(apsw.Connection(":memory:")) as connection:
        migrate(connection)
        connection.execute(_FILL)
        if request.param == "after ANALYZE":
            connection.execute("ANALYZE")
        yield connection


@pytest.mark.parametrize(("name", "values", "ways"), NAMED, ids=[name for name, *_ in NAMED])
def test_a_statement_seeks_in_the_index_made_for_it(
    database: apsw.Connection, name: str, values: tuple[Any, ...], ways: set[str]
) -> None:
    plan = [row[3] for row in database.execute("EXPLAIN QUERY PLAN " + getattr(SQL, name), values)]
    # A lane's first is known by its key; whoever is looked through is what was found so far.
    steps = [step for step in plan if " deliveries" in step or " head" in step]
    assert all(step.startswith("SEARCH") for step in steps), plan
    assert {step.partition(" USING ")[2].partition(" (")[0] for step in steps} == ways, plan
    assert not any("TEMP B-TREE" in step for step in plan), plan


def test_of_each_lane_the_first_is_found(database: apsw.Connection) -> None:
    found = {row[0]: row[1:] for row in database.execute(SQL.delivery_lanes)}
    assert len(found) == 201
    assert found["dead"] == ("tenant-0", 0, 0)
    assert found["lane-7"] == (f"tenant-{39_007 % 3}", 39_007, 0)
