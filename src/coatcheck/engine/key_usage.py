"""Last-use times of API keys, written to the store at intervals.

A request only records the time in memory. All recorded times are written once a minute, in one
batch. The write skips a key whose use another process has written within the minute. A crash loses
the last minute: the times are for people, and nothing in the engine depends on them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from coatcheck.clock import Clock
from coatcheck.errors import StoreError
from coatcheck.model.access import KeyUse
from coatcheck.store.base import Store

log = logging.getLogger(__name__)

FLUSH_S = 60.0
# The time limit of the last write when the process stops.
STOPPING_S = 2.0


class KeyUses:
    """The key uses of one process that are not written yet."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._unwritten: dict[str, KeyUse] = {}

    def note(self, tenant: str, key_id: str) -> None:
        """Record that a key was used now."""
        self._unwritten[key_id] = KeyUse(tenant, key_id, self._clock.now())

    async def run(self) -> None:
        """Write the recorded uses every minute until cancelled, then once more."""
        try:
            while True:
                await asyncio.sleep(FLUSH_S)
                await self.flush()
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOPPING_S):
                    await self.flush()

    async def flush(self) -> None:
        """Write the recorded uses; if the store is unavailable, they are written the next time."""
        uses, self._unwritten = self._unwritten, {}
        if not uses:
            return
        try:
            await self._store.access.touch_keys(list(uses.values()), round(FLUSH_S * 1000))
        except StoreError as error:
            log.warning("key usage not written", extra={"why": str(error)})
            self._unwritten = {**uses, **self._unwritten}
