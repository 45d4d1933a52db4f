"""Asking until there is an answer: when to ask again, after what pause, and when to give up.

Asked again is after a lost connection or answer, after the statuses that say "not now", and after a
conflict that says when it will be over: every
request of this client may be repeated, for it reads, or says what should be so, or carries an
idempotency key. The exception is what must not happen twice and has no key, an event for a job: it
is sent again only where it cannot have arrived. A server that says when to come back is taken at
its word; otherwise pauses double, with jitter. When the next pause would end after the time the
call has, it gives up at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeGuard

from coatcheck.client.effects import Pause, Steps, send
from coatcheck.client.wire import ApiRequest, ApiResponse, ConnectionLost
from coatcheck.errors import InvalidInput, Unreachable

CONFLICT = 409
TOO_OFTEN = 429
NOT_NOW = frozenset({408, TOO_OFTEN, 502, 503, 504})
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
# A crowd that was sent away together does not come back together.
SPREAD = 0.1


def is_answer(got: ApiResponse | ConnectionLost) -> TypeGuard[ApiResponse]:
    """Tell whether this is what the server has to say, and not "not now"."""
    if not isinstance(got, ApiResponse) or got.status in NOT_NOW:
        return False
    # It is in the way of itself: an earlier try of the same request is not through.
    return got.status != CONFLICT or got.retry_after_s is None


@dataclass(frozen=True)
class RetryPolicy:
    """How one client repeats its requests."""

    base_url: str
    timeout_s: float
    retry_for_s: float
    monotonic: Callable[[], float]
    jitter: Callable[[], float] = random.random  # from 0 to 1

    def ask(self, request: ApiRequest) -> Steps[tuple[ApiResponse, int]]:
        """Send a request until it is answered; the answer, and how often none was had before it."""
        until = self.monotonic() + self.retry_for_s
        attempt = 0
        while True:
            got = yield from send(request, self.timeout_s)
            if is_answer(got):
                return got, attempt
            pause = self.pause_after(got, attempt)
            if self.monotonic() + pause > until or (
                isinstance(got, ConnectionLost) and got.hopeless
            ):
                return self.give_up(got), attempt
            yield Pause(pause)
            attempt += 1

    def ask_large(self, request: ApiRequest, limit: int) -> Steps[ApiResponse]:
        """Send a request that is larger than servers take, once.

        A server refuses it while it is still being sent and then closes the connection, and its
        words may be lost with that: a cut is its answer, and saying it again brings another one.
        """
        got = yield from send(request, self.timeout_s)
        if isinstance(got, ConnectionLost) and got.connected:
            size = len(request.content or b"")
            raise InvalidInput(
                f"the server hung up on a request of {size:,} bytes, "
                f"which is larger than the {limit:,} it takes"
            )
        return self.give_up(got)

    def give_up(self, got: ApiResponse | ConnectionLost) -> ApiResponse:
        """Return the last answer, whatever it says; raise where there was none."""
        if isinstance(got, ApiResponse):
            return got
        raise Unreachable(f"cannot reach the server at {self.base_url}: {got.reason}")

    def pause_after(self, got: ApiResponse | ConnectionLost, attempt: int) -> float:
        """Return how long to wait before asking again; attempts count from 0."""
        backoff = self.backoff(attempt)
        asked = got.retry_after_s if isinstance(got, ApiResponse) else None
        return backoff if asked is None else max(backoff, self.spread(asked))

    def backoff(self, attempt: int) -> float:
        """Return a pause that doubles with each attempt."""
        longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(attempt, 10))
        return longest * (1 + self.jitter()) / 2

    def spread(self, seconds: float) -> float:
        """Return this long, or slightly longer."""
        return seconds * (1 + SPREAD * self.jitter())
