"""A store of which only the reading can be seen, whose jobs change when a test says so."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

from coatcheck.engine.submit.submission import as_submitted
from coatcheck.errors import Gone, StoreUnavailable
from coatcheck.model.job import DEFAULT_TENANT, Job, JobInsert
from coatcheck.model.state import State
from coatcheck.store.base import Store, Topic
from coatcheck.store.shared.signals import LoopSignal, SignalHub


class ChangingStore:
    """Answers what a store would; every read is counted, and may be slow or fail.

    A read sees what was there when it began, however long its answer takes.
    """

    def __init__(self) -> None:
        self.rows: dict[str, Job] = {}
        self.reads: Counter[str] = Counter()
        self.asked: list[int] = []  # how many jobs each get_many was for
        self.slowness: Callable[[], int] = lambda: 1  # in turns of the loop
        self.is_down = False
        self._hub = SignalHub()

    @property
    def jobs(self) -> ChangingStore:
        """The part of the store that is read: this object itself."""
        return self

    @property
    def as_store(self) -> Store:
        return cast("Store", self)

    # --- what a Watch calls

    async def get(self, tenant: str, job_id: str) -> Job:
        self.reads["get"] += 1
        found = self.rows.get(job_id)
        await self._take_time()
        if found is None:
            raise Gone(f"job {job_id} is gone")
        return found

    async def get_many(self, ids: Sequence[tuple[str, str]]) -> list[Job]:
        self.reads["get_many"] += 1
        self.asked.append(len(ids))
        found = [self.rows[job_id] for _, job_id in ids if job_id in self.rows]
        await self._take_time()
        return found

    def subscribe(self, topic: Topic) -> LoopSignal:
        return self._hub.subscribe(topic)

    # --- what a test does

    def add(self, job_id: str) -> Job:
        new = JobInsert(id=job_id, kind="echo", input="null", created_at=0, run_at=0)
        self.rows[job_id] = as_submitted(new)
        return self.rows[job_id]

    def move(self, job_id: str, **changes: Any) -> None:
        """Write an event of a job, and tell everybody."""
        job = self.rows[job_id]
        self.rows[job_id] = dataclasses.replace(job, last_event=job.last_event + 1, **changes)
        self.tell(Topic.CHANGES if changes else Topic.REPORTS)

    def end(self, job_id: str) -> None:
        self.move(job_id, state=State.SUCCEEDED)

    def delete(self, job_id: str) -> None:
        del self.rows[job_id]
        self.tell()

    def tell(self, topic: Topic = Topic.CHANGES) -> None:
        self._hub.wake({topic})

    @property
    def has_subscribers(self) -> bool:
        return any(map(self._hub.is_wanted, Topic))

    async def _take_time(self) -> None:
        for _ in range(self.slowness()):
            await asyncio.sleep(0)
        if self.is_down:
            raise StoreUnavailable("the store is away")


def key(job_id: str) -> tuple[str, str]:
    return DEFAULT_TENANT, job_id


async def turns(count: int) -> None:
    """Let everybody else have so many turns of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)
