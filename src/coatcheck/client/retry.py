"""RequestRetryPolicy: when to repeat a request, after what pause, and when to give up.

A request is repeated after a lost connection, after the statuses that mean "not now", and after a
409 with `Retry-After`. Every request of this client is safe to repeat: it reads, it sets a state,
or it carries an idempotency key. Requests that create a secret have no key and are sent once.

If the server sends `Retry-After`, the pause is at least that long. Otherwise pauses double, with
jitter. If the next pause would end after the call's deadline, the call gives up immediately.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeGuard

from coatcheck.client.effects import Effects, Pause, send_request
from coatcheck.client.wire import ApiRequest, ApiResponse, ConnectionLost
from coatcheck.errors import InvalidInput, Unreachable

# The default time for one response, and for a request with all its repetitions.
RESPONSE_TIMEOUT_S = 30.0
RETRY_FOR_S = 60.0
CONFLICT = 409
TOO_MANY_REQUESTS = 429
RETRYABLE = frozenset({408, TOO_MANY_REQUESTS, 502, 503, 504})
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
# Clients that the server rejected together must not return together.
SPREAD = 0.1


def is_final(outcome: ApiResponse | ConnectionLost) -> TypeGuard[ApiResponse]:
    """Tell whether this is the response to the request, so that it must not be repeated."""
    if not isinstance(outcome, ApiResponse) or outcome.status in RETRYABLE:
        return False
    # A 409 with Retry-After: an earlier attempt of this request is still in progress.
    return outcome.status != CONFLICT or outcome.retry_after_s is None


def is_permanent(outcome: ApiResponse | ConnectionLost) -> bool:
    """Tell whether the connection failed in a way that a retry cannot change."""
    return isinstance(outcome, ConnectionLost) and outcome.permanent


@dataclass(frozen=True)
class RequestRetryPolicy:
    """The retry policy for the requests of one client."""

    base_url: str
    timeout_s: float
    retry_for_s: float
    monotonic: Callable[[], float]
    jitter: Callable[[], float] = random.random  # from 0 to 1

    def send(self, request: ApiRequest, wait_s: float = 0.0) -> Effects[tuple[ApiResponse, int]]:
        """Send a request until it is answered; return the response and the number of retries."""
        until = self.monotonic() + self.retry_for_s
        attempt = 0
        while True:
            outcome = yield from send_request(request, self.timeout_s + wait_s)
            if is_final(outcome):
                return outcome, attempt
            pause = self.pause_after(outcome, attempt)
            if self.monotonic() + pause > until or is_permanent(outcome):
                return self.last_response(outcome), attempt
            yield Pause(pause)
            attempt += 1

    def send_oversized(self, request: ApiRequest, limit: int) -> Effects[ApiResponse]:
        """Send a request that is larger than the server's limit, once.

        The server rejects such a request while it is still being sent and closes the connection,
        so the response may be lost. A lost connection therefore counts as the rejection.
        """
        outcome = yield from send_request(request, self.timeout_s)
        if isinstance(outcome, ConnectionLost) and outcome.connected:
            size = len(request.content or b"")
            raise InvalidInput(
                f"the server closed the connection on a request of {size:,} bytes, "
                f"which is larger than its limit of {limit:,}"
            )
        return self.last_response(outcome)

    def last_response(self, outcome: ApiResponse | ConnectionLost) -> ApiResponse:
        """Return the last response, whatever its status; raise Unreachable if there is none."""
        if isinstance(outcome, ApiResponse):
            return outcome
        raise Unreachable(f"cannot reach the server at {self.base_url}: {outcome.reason}")

    def pause_after(self, outcome: ApiResponse | ConnectionLost, attempt: int) -> float:
        """Return how long to wait before the next attempt; attempts count from 0."""
        backoff = self.backoff(attempt)
        wanted = outcome.retry_after_s if isinstance(outcome, ApiResponse) else None
        return backoff if wanted is None else max(backoff, self.spread(wanted))

    def backoff(self, attempt: int) -> float:
        """Return a pause that doubles with each attempt."""
        longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(attempt, 10))
        return longest * (1 + self.jitter()) / 2

    def spread(self, seconds: float) -> float:
        """Return this pause, or a slightly longer one."""
        return seconds * (1 + SPREAD * self.jitter())
