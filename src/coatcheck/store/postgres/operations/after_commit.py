"""Effects of committed transitions: wake waiting jobs, cancel children, notify workers.

waiters.py explains why wake-ups and cancellations of children have transactions of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from coatcheck.errors import StoreUnavailable
from coatcheck.model.job import JobInsert
from coatcheck.store.base import Topic
from coatcheck.store.postgres.claims.claimer import PostgresClaimer
from coatcheck.store.postgres.database.notify import Notifications
from coatcheck.store.postgres.database.pool import Database
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.postgres.operations import waiters
from coatcheck.store.postgres.operations.jobs import Key, SettleEffects

log = logging.getLogger(__name__)


class WorkNotifier:
    """Updates the claim cursor of this process and notifies workers when jobs become claimable."""

    def __init__(self, claimer: PostgresClaimer, notifications: Notifications) -> None:
        self._claimer = claimer
        self._notifications = notifications

    def forget_lanes(self) -> None:
        """Discard the cached lanes: the next claim searches everywhere."""
        self._claimer.lanes.forget()

    def jobs_submitted(self, jobs: Sequence[JobInsert]) -> None:
        """Add the lanes of new jobs to the cursor and notify workers."""
        if not jobs:
            return
        self._claimer.lanes.opened(((job.kind, job.queue, job.priority), job.id) for job in jobs)
        self._notifications.publish({Topic.WORK})

    def queue_changed(self) -> None:
        """Discard the cached lanes and notify workers."""
        self.forget_lanes()
        self._notifications.publish({Topic.WORK})

    def jobs_woken(self) -> None:
        """Discard the cached lanes and notify workers, watchers and webhook dispatchers."""
        self.forget_lanes()
        self._notifications.publish({Topic.WORK, Topic.CHANGES, Topic.WEBHOOKS})


class AfterCommit:
    """Wakes waiting jobs and cancels children after a commit."""

    def __init__(
        self,
        database: Database,
        sql: Statements,
        notifications: Notifications,
        work: WorkNotifier,
    ) -> None:
        self._database = database
        self._sql = sql
        self._notifications = notifications
        self._work = work

    async def follow(self, after: SettleEffects, now: int) -> None:
        """Run the effects. If the store is unavailable, they are left to the sweep."""
        if not after:
            return
        if after.deliveries:
            self._notifications.publish({Topic.WEBHOOKS})
        try:
            if after.ended:
                await self._wake(waiters.wake_those_who_wait_for, after.ended, now)
            if after.waiting:
                await self.look_again(after.waiting, now)
            for key in after.cancelled:
                await self.cascade(key, now)
        except StoreUnavailable as error:
            log.warning("job wake-up failed; left to the sweep", extra={"why": str(error)})

    async def look_again(self, keys: Sequence[Key], now: int) -> None:
        """Wake waiting jobs whose events have all arrived."""
        await self._wake(waiters.look_again, keys, now)

    async def cascade(self, key: Key, now: int) -> bool:
        """Cancel some children of a cancelled job. Returns whether there may be more."""
        more, after = await self._database.run(lambda db: waiters.cascade(db, self._sql, key, now))
        if after.ended:
            await self._wake(waiters.wake_those_who_wait_for, after.ended, now)
        self._notifications.publish({Topic.CANCELS, Topic.CHANGES, Topic.WEBHOOKS})
        return more

    async def _wake(self, how: Any, keys: Sequence[Key], now: int) -> None:
        if await self._database.run(lambda db: how(db, self._sql, keys, now)):
            self._work.jobs_woken()
