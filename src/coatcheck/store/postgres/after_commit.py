"""Doing for other jobs what follows from transitions, once those are committed.

What that is, and why it has transactions of its own, is told in waiters.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from coatcheck.errors import StoreUnavailable
from coatcheck.store.base import Topic
from coatcheck.store.postgres import waiters
from coatcheck.store.postgres.database import Database
from coatcheck.store.postgres.jobs import Key, SettleEffects
from coatcheck.store.postgres.notify import Notifications
from coatcheck.store.postgres.statements import Statements

log = logging.getLogger(__name__)


class AfterCommit:
    """Wakes jobs that wait, and takes children along."""

    def __init__(
        self,
        database: Database,
        sql: Statements,
        notifications: Notifications,
        woke: Callable[[], None],
    ) -> None:
        self._database = database
        self._sql = sql
        self._notifications = notifications
        self._woke = woke  # is told when jobs were woken

    async def follow(self, after: SettleEffects, now: int) -> None:
        """Do all that follows. What fails is left to the sweep."""
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
            log.warning("waking jobs is left to the sweep", extra={"why": str(error)})

    async def look_again(self, keys: Sequence[Key], now: int) -> None:
        """Wake those of waiting jobs for which all is there."""
        await self._wake(waiters.look_again, keys, now)

    async def cascade(self, key: Key, now: int) -> bool:
        """Cancel some children of a cancelled job; return whether there may be more of them."""
        more, after = await self._database.run(lambda db: waiters.cascade(db, self._sql, key, now))
        if after.ended:
            await self._wake(waiters.wake_those_who_wait_for, after.ended, now)
        self._notifications.publish({Topic.CANCELS, Topic.CHANGES, Topic.WEBHOOKS})
        return more

    async def _wake(self, how: Any, keys: Sequence[Key], now: int) -> None:
        if await self._database.run(lambda db: how(db, self._sql, keys, now)):
            self._woke()
