"""Jobs that wait are woken by whoever ends what they wait for, whatever happens in between."""

from __future__ import annotations

from typing import Any

import pytest

from coatcheck.model.job import Lease
from coatcheck.model.outcome import Succeeded, Waiting
from coatcheck.model.state import Reason, State
from coatcheck.model.step import child_finished
from coatcheck.store.base import Settlement
from coatcheck.store.postgres.operations import jobs as job_operations
from coatcheck.store.postgres.operations import waiters
from coatcheck.store.postgres.operations.jobs import SettleEffects, key_of
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.testing.conformance.arrange import (
    NOW,
    WORKER,
    claim,
    job_of,
    run_job,
    settle,
    spawn,
    worker_info,
)

pytestmark = pytest.mark.anyio


async def test_a_job_that_begins_to_wait_while_another_is_woken_is_woken_as_well(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.workers.register_worker(worker_info(WORKER))
    parents = [await run_job(store) for _ in range(2)]
    for parent in parents:
        await spawn(store, parent)
    children = {each.lease.job_id: each.lease for each in await claim(store, "child")}
    waits = [Waiting(None, ((child_finished(each),),)) for each in sorted(children)]
    await settle(store, parents[0], waits[0])
    begun: list[SettleEffects] = []

    async def begin_to_wait(lease: Lease, outcome: Waiting) -> None:
        item = Settlement(lease, outcome)
        _, _, after = await store._database.run(
            lambda db: job_operations.settle(db, store._sql, [item], NOW)
        )
        begun.append(after)

    class Between:
        """A connection, and what happens once those that wait were found on it."""

        def __init__(self, db: Any) -> None:
            self._db = db

        def __getattr__(self, name: str) -> Any:
            return getattr(self._db, name)

        async def fetch(self, sql: str, *values: Any) -> list[Any]:
            rows: list[Any] = await self._db.fetch(sql, *values)
            if sql == store._sql.waiters:
                await begin_to_wait(parents[1], waits[1])
            return rows

    wake = waiters.wake_those_who_wait_for
    monkeypatch.setattr(
        waiters,
        "wake_those_who_wait_for",
        lambda db, *rest: wake(Between(db), *rest),
    )
    assert await store.workers.settle(
        [Settlement(lease, Succeeded("1")) for lease in children.values()], NOW + 1
    ) == [True, True]
    [after] = begun
    assert after.waiting == [key_of(parents[1])]
    await store._after_commit.follow(after, NOW + 2)
    found = [await job_of(store, parent) for parent in parents]
    assert [(job.state, job.reason) for job in found] == [(State.QUEUED, Reason.WOKEN)] * 2
