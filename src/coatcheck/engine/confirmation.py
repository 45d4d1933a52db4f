"""Confirm again that the caller of a long request is still authorized.

A key can be revoked, or its tenant suspended, while its request waits. So the code that authorizes
a request creates a `Confirmation` for it:

- It is current (`current`) until the request is answered, in every task the request starts.
- Code that waits on behalf of a request expires it when the wait is over (`expire_confirmation`):
  waits for jobs and events, claims, and calls that are answered by a worker.
- Before anything of the answer is sent, `ensure` asks again unless the confirmation is fresh. The
  HTTP server does that for every answer (http/auth/middleware.py), so an endpoint cannot forget it,
  and a wait that expires nothing is still bounded by `FRESH_S`.

Invariant: nothing is answered after a wait, or later than `FRESH_S` after the last confirmation
(`STREAM_FRESH_S` once the answer has begun), unless the caller was confirmed again since.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

# Longer than a request that does not wait takes, so such a request is confirmed once.
FRESH_S = 0.25
# While a response is streamed.
STREAM_FRESH_S = 1.0


class Confirmation:
    """When a caller was last confirmed, and how to confirm it again.

    `epoch` tells which access epoch this process knows of: if it changes, nothing is fresh.
    """

    __slots__ = ("_confirmed_at", "_epoch", "_expired_at", "_known_epoch", "_renew")

    def __init__(
        self, renew: Callable[[], Awaitable[None]], epoch: Callable[[], int | None] = lambda: None
    ) -> None:
        self._renew = renew
        self._epoch = epoch
        self._known_epoch = epoch()
        self._confirmed_at = time.monotonic()
        self._expired_at = float("-inf")

    def expire(self) -> None:
        """Require a new confirmation before the response is sent."""
        self._expired_at = time.monotonic()

    def waive(self) -> None:
        """Require no more confirmations: the request itself has changed keys or tenants."""
        self._confirmed_at = math.inf

    def is_fresh(self, *, streaming: bool = False) -> bool:
        """Tell whether the caller was confirmed recently and has not waited since."""
        if self._confirmed_at == math.inf:
            return True
        if self._confirmed_at <= self._expired_at or self._epoch() != self._known_epoch:
            return False
        fresh_s = STREAM_FRESH_S if streaming else FRESH_S
        return time.monotonic() - self._confirmed_at < fresh_s

    async def ensure(self, *, streaming: bool = False) -> None:
        """Confirm the caller again unless that was done a moment ago; raises what `renew` raises
        for a caller who is no longer allowed in.
        """
        if self.is_fresh(streaming=streaming):
            return
        began = time.monotonic()
        await self._renew()
        self._known_epoch = self._epoch()
        self._confirmed_at = began  # a wait that ended in the meantime counts


current: ContextVar[Confirmation | None] = ContextVar("confirmation", default=None)


def expire_confirmation() -> None:
    """Require a new confirmation for the current request, if there is one."""
    confirmation = current.get()
    if confirmation is not None:
        confirmation.expire()


def waive_confirmation() -> None:
    """Waive confirmations for the current request, which has changed keys or tenants itself."""
    confirmation = current.get()
    if confirmation is not None:
        confirmation.waive()


async def ensure_confirmed(*, streaming: bool = False) -> None:
    """Confirm the caller of the current request, if there is one, unless that is fresh."""
    confirmation = current.get()
    if confirmation is not None:
        await confirmation.ensure(streaming=streaming)
