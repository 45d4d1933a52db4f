"""The SQLite store follows the pure rules of a job's life, case by case."""

from __future__ import annotations

import asyncio

import pytest

from coatcheck.model import transition as rules
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.testing.conformance.arrange import NOW, TENANT, new_job
from tests.store.rules import CASES, check_rule, status_of

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", CASES)
async def test_statuses_and_events_follow_the_rules(store: SQLiteStore, name: str) -> None:
    await check_rule(store, CASES[name])


@pytest.mark.parametrize("delay_ms", [0, 60_000])
async def test_bulk_insert_follows_the_rule_of_creation(store: SQLiteStore, delay_ms: int) -> None:
    jobs = [new_job(run_at=NOW + delay_ms) for _ in range(20)]
    await asyncio.gather(*(store.jobs.submit(job, NOW) for job in jobs))
    expected = rules.created(NOW + delay_ms, NOW).status._replace(claimable=False)
    for job in jobs:
        assert status_of(await store.jobs.get(TENANT, job.id)) == expected
