"""A hundred thousand jobs: paging through what a filter lets through brings each once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.ids import first_ulid_at
from coatcheck.store.sqlite.store import SQLiteStore
from tests.http.arrange import NOW, connect
from tests.http.kinds import Gate, declare_kinds

pytestmark = pytest.mark.anyio

JOBS = 100_000

_FILL = """
WITH RECURSIVE number (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n < :jobs - 1)
INSERT INTO jobs (
  tenant, id, surface, kind, queue, priority, labels, created_at, max_attempts, on_lost,
  timeout_ms, keep_succeeded_ms, keep_failed_ms, state, claimable, attempt, fence, run_at,
  cancel_requested, last_event
)
SELECT 'default', :prefix || printf('%016d', n), 'api', 'kind-' || (n % 40),
  'queue-' || (n % 25), 0,
  CASE WHEN n % 20 = 0 THEN '{"team":"blue","n":"' || (n % 3) || '"}' ELSE '{}' END,
  :now + n, 3, 'requeue', 1, 1, 1, iif(n % 50 = 0, 'failed', 'succeeded'), 0, 1, 1, :now + n, 0, 2
FROM number
"""
_FILL_LABELS = """
INSERT INTO labels (tenant, name, value, job_id)
SELECT jobs.tenant, label.key, label.value, jobs.id FROM jobs, json_each(jobs.labels) AS label
"""


@pytest.fixture
async def full(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    store = SQLiteStore(tmp_path / "jobs.db")
    await store.migrate()
    with closing(apsw.Connection(str(tmp_path / "jobs.db"))) as connection, connection:
        prefix = first_ulid_at(NOW)[:10]
        connection.execute(_FILL, {"jobs": JOBS, "prefix": prefix, "now": NOW})
        connection.execute(_FILL_LABELS)
    await store.open()
    async with connect(create_http_app(Engine(store, declare_kinds(Gate()).kinds))) as http:
        yield http
    await store.close()


async def numbers(http: httpx2.AsyncClient, **query: Any) -> list[int]:
    """Return the numbers of the jobs on all pages, in the order they came."""
    found: list[int] = []
    query["limit"] = 200
    while True:
        page = (await http.get("/v1/jobs", params=query)).json()
        found += [int(job["id"][10:]) for job in page["jobs"]]
        if page["next_cursor"] is None:
            return found
        query["cursor"] = page["next_cursor"]


async def test_every_job_comes_once_and_in_order(full: httpx2.AsyncClient) -> None:
    newest = range(JOBS - 1, -1, -1)
    assert await numbers(full, queue="queue-3") == [n for n in newest if n % 25 == 3]
    assert await numbers(full, kind="kind-7") == [n for n in newest if n % 40 == 7]
    assert await numbers(full, state="failed") == [n for n in newest if n % 50 == 0]
    assert await numbers(full, label="team:blue") == [n for n in newest if n % 20 == 0]
    assert await numbers(full, label=["team:blue", "n:1"]) == [
        n for n in newest if n % 20 == 0 and n % 3 == 1
    ]
    assert await numbers(full, label="team:blue", state="failed", queue="queue-0") == [
        n for n in newest if n % 100 == 0
    ]
