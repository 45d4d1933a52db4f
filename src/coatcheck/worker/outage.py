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


class Pauses:
    """Pauses that grow while the store stays down, spread so that workers do not come in step."""

    def __init__(self) -> None:
        self._next = FIRST_PAUSE_S

    async def pause(self, why: StoreUnavailable) -> None:
        """Wait before the next try."""
        log.warning("the store is down", extra={"why": str(why), "pause_s": self._next})
        await asyncio.sleep(self._next * random.uniform(0.8, 1.0))  # noqa: S311 - no secret
        self._next = min(LONGEST_PAUSE_S, self._next * 2)

    def reset(self) -> None:
        """Start again with short ones: the store has answered."""
        self._next = FIRST_PAUSE_S


async def persist(verb: Callable[[], Awaitable[T]]) -> T:
    """Do a write that must not be given up."""
    pauses = Pauses()
    while True:
        try:
            return await verb()
        except StoreUnavailable as error:
            await pauses.pause(error)
