"""Getting through an outage of the store: what must be written is tried until it is."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from coatcheck.errors import StoreUnavailable

log = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
# After so many in a row that went well.
SUCCESSES = 3


class RetryPauses:
    """Growing pauses between retries while the store is down, with jitter."""

    def __init__(self) -> None:
        self._next = FIRST_PAUSE_S

    async def pause(self, why: StoreUnavailable) -> None:
        """Wait before the next try."""
        log.warning("the store is down", extra={"why": str(why), "pause_s": self._next})
        await asyncio.sleep(self._next * random.uniform(0.8, 1.0))  # noqa: S311 - no secret
        self._next = min(LONGEST_PAUSE_S, self._next * 2)


class StorePoll:
    """How often to look for work while the store fails: half as often after each failure, twice as
    often again after some looks that succeeded.
    """

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = max(first_s, longest_s)
        self._succeeded = 0
        self.interval_s = first_s

    def failed(self) -> None:
        """The store did not answer."""
        self._succeeded = 0
        self.interval_s = min(self._longest_s, self.interval_s * 2)

    def succeeded(self) -> None:
        """It did."""
        self._succeeded += 1
        if self._succeeded == SUCCESSES:
            self._succeeded = 0
            self.interval_s = max(self._first_s, self.interval_s / 2)

    async def pause(self, why: StoreUnavailable) -> None:
        """Wait before the next look."""
        log.warning("the store is down", extra={"why": str(why), "pause_s": self.interval_s})
        pause_s = self.interval_s * random.uniform(0.8, 1.0)  # noqa: S311 - no secret
        self.failed()
        await asyncio.sleep(pause_s)


async def persist(verb: Callable[[], Awaitable[T]]) -> T:
    """Do a write that must not be given up."""
    try:
        return await verb()
    except StoreUnavailable as error:
        why = error
    pauses = RetryPauses()
    while True:
        await pauses.pause(why)
        try:
            return await verb()
        except StoreUnavailable as error:
            why = error
