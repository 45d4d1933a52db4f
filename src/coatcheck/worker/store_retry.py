"""Retrying while the store is unavailable."""

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
# So many successes in a row double the poll rate again.
SUCCESSES = 3


class RetryPauses:
    """Pauses between retries while the store is unavailable: they double, with jitter."""

    def __init__(self) -> None:
        self._next = FIRST_PAUSE_S

    async def pause(self, error: StoreUnavailable) -> None:
        """Wait before the next attempt."""
        log.warning("store unavailable", extra={"why": str(error), "pause_s": self._next})
        await asyncio.sleep(self._next * random.uniform(0.8, 1.0))  # noqa: S311 - no secret
        self._next = min(LONGEST_PAUSE_S, self._next * 2)


class StorePoll:
    """The poll interval while claims fail.

    The interval doubles after each failure, and halves after a few successes.
    """

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = max(first_s, longest_s)
        self._succeeded = 0
        self.interval_s = first_s

    def record_failure(self) -> None:
        """Double the interval."""
        self._succeeded = 0
        self.interval_s = min(self._longest_s, self.interval_s * 2)

    def record_success(self) -> None:
        """Halve the interval after enough successes."""
        self._succeeded += 1
        if self._succeeded == SUCCESSES:
            self._succeeded = 0
            self.interval_s = max(self._first_s, self.interval_s / 2)

    async def pause(self, error: StoreUnavailable) -> None:
        """Record a failure, and wait before the next poll."""
        log.warning("store unavailable", extra={"why": str(error), "pause_s": self.interval_s})
        pause_s = self.interval_s * random.uniform(0.8, 1.0)  # noqa: S311 - no secret
        self.record_failure()
        await asyncio.sleep(pause_s)


async def retry_until_available(verb: Callable[[], Awaitable[T]]) -> T:
    """Call the store, and retry until it is available."""
    try:
        return await verb()
    except StoreUnavailable as error:
        failure = error
    pauses = RetryPauses()
    while True:
        await pauses.pause(failure)
        try:
            return await verb()
        except StoreUnavailable as error:
            failure = error
