"""Limits over several processes, and what a claim reads beside lanes that are full."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from coatcheck.model.limit import Limit
from coatcheck.store.shared.fairness import RoundRobin
from coatcheck.store.sqlite.database.schema import migrate
from coatcheck.store.sqlite.database.statements import SQL
from coatcheck.store.sqlite.database.transaction import Transaction
from coatcheck.store.sqlite.operations import claim
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.testing.conformance.arrange import NOW, WORKER

from .limited_process import check, fill, run_processes

JOBS = 60_000
# What a claim of a few jobs takes of the database's virtual machine, a few times over. Walking over
# the jobs of one lane would take a hundred times as many.
MOST_STEPS = 20_000

_FILL = """
WITH RECURSIVE number (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n < :jobs - 1)
INSERT INTO jobs (
  tenant, id, surface, kind, queue, priority, limit_key, labels, created_at, max_attempts, on_lost,
  timeout_ms, keep_succeeded_ms, keep_failed_ms, state, claimable, attempt, fence, run_at,
  cancel_requested, last_event
)
SELECT :tenant, :prefix || printf('%016d', n), 'api', :kind, 'default', 0, :key, '{}', :now, 3,
  'requeue', 1, 1, 1, 'queued', 1, 0, 0, :now, 0, 1
FROM number
"""


@pytest.mark.anyio
async def test_limits_hold_over_processes(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'jobs.db'}"
    store = SQLiteStore(tmp_path / "jobs.db")
    await store.open()
    counts_for = await fill(store)
    await store.close()
    run_processes(database, "coatcheck", tmp_path / "log")
    check(tmp_path / "log", counts_for)


@pytest.mark.parametrize("held", ["a key", "a kind", "a queue", "another tenant"])
def test_a_claim_never_walks_over_a_lane(held: str) -> None:
    limits = {"a key": {"mail": Limit(1, by_key=True)}, "a kind": {"mail": Limit(1)}}.get(held, {})
    with closing(apsw.Connection(":memory:")) as connection:
        migrate(connection)
        same = {"kind": "mail", "key": "full", "now": NOW, "tenant": "big"}
        connection.execute(_FILL, {**same, "jobs": JOBS, "prefix": "a"})
        other = {"a kind": {"kind": "chart"}, "another tenant": {"tenant": "small"}}.get(held, {})
        connection.execute(_FILL, {**same, "key": "free", **other, "jobs": 10, "prefix": "b"})
        connection.execute("INSERT INTO payloads SELECT tenant, id, 'input', '1' FROM jobs")
        connection.execute(SQL.insert_worker, (WORKER, "here", 1, "[]", 8, NOW, 0))
        if held == "a queue":
            connection.execute("INSERT INTO queues (name, concurrency) VALUES ('default', 1)")
        turns, steps, kinds = RoundRobin(), 0, ("mail", "chart")
        tx = Transaction(connection)

        def count() -> bool:
            nonlocal steps
            steps += 1
            return False

        first = claim.claim(tx, turns, WORKER, kinds, 1, NOW, limits, {}).claims
        assert len(first) == 1
        connection.set_progress_handler(count, 1)
        claims = claim.claim(tx, turns, WORKER, kinds, 4, NOW, limits, {}).claims
        connection.set_progress_handler(None)
        expected = {"a key": 1, "a kind": 4, "a queue": 0, "another tenant": 4}[held]
        assert len(claims) == expected
        assert 0 < steps < MOST_STEPS
