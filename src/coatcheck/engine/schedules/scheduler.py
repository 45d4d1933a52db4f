"""The scheduler: submits the jobs of due ticks.

Every API and worker process runs a scheduler of its own. `coatcheck.store.schedules` explains why
each tick still submits only one job. A process sleeps until the next tick of its own kinds. A new
or changed schedule wakes the process, which also polls every `NET_S`, because the wall clock may
have jumped. Without schedules there is nothing else to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection
from dataclasses import dataclass

from coatcheck.clock import Clock
from coatcheck.engine.maintenance.metrics import Metrics
from coatcheck.engine.schedules.schedules import Schedules
from coatcheck.errors import InvalidInput, StoreError
from coatcheck.model.job import JobInsert
from coatcheck.model.schedule import Overlap, Schedule, due_at
from coatcheck.store.base import Store, Topic
from coatcheck.store.schedules import ScheduleFiring

log = logging.getLogger(__name__)

# Schedules that are fired concurrently; their writes share a few commits.
AT_ONCE = 100
# The longest sleep.
NET_S = 30.0
# The pause after an outage of the store.
RETRY_S = 2.0


@dataclass(frozen=True, slots=True)
class Scheduler:
    """The scheduler of one process."""

    store: Store
    schedules: Schedules
    kinds: Collection[str]
    clock: Clock
    metrics: Metrics

    async def run(self) -> None:
        """Fire due schedules until cancelled; wait out any outage of the store."""
        with contextlib.closing(self.store.subscribe(Topic.SCHEDULES)) as changed:
            while True:
                wait_s = NET_S
                try:
                    next_at = await self.fire_due()
                except StoreError as error:
                    log.warning("due schedules not read", extra={"why": str(error)})
                    wait_s = RETRY_S
                else:
                    if next_at is not None:
                        wait_s = min(NET_S, max(0, next_at - self.clock.now()) / 1000)
                await changed.wait(wait_s)

    async def fire_due(self) -> int | None:
        """Fire every due tick; return when the next one is due, or None if there is none."""
        while True:
            now = self.clock.now()
            due, next_at = await self.store.schedules.list_due_schedules(
                list(self.kinds), now, AT_ONCE
            )
            fired = await asyncio.gather(
                *(self._fire(schedule, now) for schedule in due), return_exceptions=True
            )
            for failure in fired:
                if isinstance(failure, BaseException):
                    raise failure
            if True not in fired:
                return next_at

    async def _fire(self, schedule: Schedule, now: int) -> bool:
        """Fire one schedule; return False if it must stay as it is."""
        try:
            firing = self._decide(schedule, now)
        except Exception:
            # One bad schedule must not block the others, and it may work on another machine.
            log.exception("schedule not fired", extra={"schedule": schedule.name})
            return False
        if firing is None:
            return False
        made = await self.store.schedules.fire_schedule(firing, now)
        told = {"schedule": schedule.name, "kind": schedule.definition.kind}
        if firing.problem is not None and made is not None:
            log.error("tick failed", extra={**told, "why": firing.problem})
        elif made:
            self.metrics.submitted(schedule.definition.kind, made)
            late = now - (firing.last_at or now)
            log.info(
                "schedule fired", extra={**told, "job_id": firing.jobs[-1].id, "late_ms": late}
            )
        elif made == 0:
            log.info("tick skipped", extra=told)
        return True

    def _decide(self, schedule: Schedule, now: int) -> ScheduleFiring | None:
        due = due_at(schedule, now)
        if due is None:
            return None
        jobs: list[JobInsert] = []
        problem = None
        try:
            jobs = [self.schedules.job_of(schedule, tick, now) for tick in due.ticks]
        except InvalidInput as error:
            problem = str(error)
        return ScheduleFiring(
            seen=schedule,
            revision=self.schedules.new_id(),
            jobs=tuple(jobs),
            next_at=due.next_at,
            last_at=due.ticks[-1] if jobs else None,
            unless_running=schedule.definition.overlap is Overlap.SKIP,
            problem=problem,
        )
