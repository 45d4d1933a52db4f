"""The wait for a job to finish: long polls, or plain polls if long ones are cut off.

A wait consists of long polls of up to 25 s. A proxy may cut off requests that take longer than its
own limit. That looks like a restarting server, so one cut proves nothing. After two cuts in a row,
polls become shorter than those that were cut. If they would be shorter than a second, the client
polls plainly, at the interval in `Retry-After`. All waits of a client share the poll length; after
a series of good responses the client tries a longer one.

If the server is unreachable, the wait continues until its own timeout: the job is durable.
"""

from __future__ import annotations

from typing import Any

from coatcheck.client.effects import Effects, Pause, send_request
from coatcheck.client.responses import JOB_MEMBERS, read_object
from coatcheck.client.retry import RequestRetryPolicy, is_final, is_permanent
from coatcheck.client.wire import ApiRequest, ApiResponse, ConnectionLost

LONGEST_POLL_S = 25.0
SHORTEST_POLL_S = 1.0
# The time a response may take beyond the poll itself.
GRACE_S = 10.0
# After this many good responses in a row, a longer poll is tried.
GOOD_RESPONSES = 20
DEFAULT_PAUSE_S = 1.0
_CUT_STATUSES = frozenset({408, 502, 504})


class PollLength:
    """The longest long poll to this server; 0 means plain polls.

    Threads share it without a lock: at worst one of two concurrent updates is lost.
    """

    def __init__(self) -> None:
        self.seconds = LONGEST_POLL_S
        self._good = 0

    def shorten(self, seconds: float) -> None:
        """Limit polls to this length, because longer ones are cut off."""
        self._good = 0
        self.seconds = seconds if seconds >= SHORTEST_POLL_S else 0.0

    def record_success(self) -> None:
        """Count a good response; after enough of them, double the length."""
        if self.seconds == LONGEST_POLL_S:
            return
        self._good += 1
        if self._good >= GOOD_RESPONSES:
            self._good = 0
            self.seconds = min(LONGEST_POLL_S, max(2 * SHORTEST_POLL_S, 2 * self.seconds))


class _CutPolls:
    """The consecutive polls of one wait that were cut off.

    Each wait has its own count: a restarting server cuts off many waits, each of them once.
    """

    def __init__(self, poll_length: PollLength) -> None:
        self._poll_length = poll_length
        self._safe_s: list[float] = []

    def add(self, poll_s: float, after_s: float) -> None:
        # If it took longer than the poll, our own timeout ended it.
        self._safe_s.append(0.8 * after_s if after_s < poll_s else poll_s / 2)
        if len(self._safe_s) == 2:
            self._poll_length.shorten(max(self._safe_s))
            self._safe_s = []

    def reset(self) -> None:
        self._safe_s = []
        self._poll_length.record_success()


def wait_until_finished(
    policy: RequestRetryPolicy, poll_length: PollLength, path: str, timeout_s: float
) -> Effects[dict[str, Any]]:
    """Return a job once it is finished, or its last known document after the timeout.

    Raises Unreachable if the job was never read.
    """
    until = policy.monotonic() + timeout_s
    job: dict[str, Any] | None = None
    cuts = _CutPolls(poll_length)
    failures = early = 0  # in a row
    while True:
        poll_s = min(poll_length.seconds, max(0.0, until - policy.monotonic()))
        started = policy.monotonic()
        response_timeout_s = poll_s + min(GRACE_S, policy.timeout_s)
        outcome = yield from send_request(_poll(path, poll_s), response_timeout_s)
        took_s = policy.monotonic() - started
        if is_final(outcome):
            job, failures = read_object(outcome, *JOB_MEMBERS), 0
            cuts.reset()
            if job["finished_at"] is not None:
                return job
            early = early + 1 if took_s < 0.9 * poll_s else 0
            pause = _pause_between(policy, outcome, poll_s, early)
        else:
            if poll_s and _is_cut(outcome):
                cuts.add(poll_s, took_s)
            pause = policy.pause_after(outcome, failures)
            failures += 1
        left = until - policy.monotonic()
        if left <= 0 or is_permanent(outcome):
            return job if job is not None else read_object(policy.last_response(outcome))
        if pause:
            yield Pause(min(pause, left))


def _poll(path: str, poll_s: float) -> ApiRequest:
    return ApiRequest("GET", path, (("wait", f"{poll_s:.3f}"),) if poll_s else ())


def _is_cut(outcome: ApiResponse | ConnectionLost) -> bool:
    if isinstance(outcome, ConnectionLost):
        return outcome.connected
    return outcome.status in _CUT_STATUSES


def _pause_between(
    policy: RequestRetryPolicy, response: ApiResponse, poll_s: float, early: int
) -> float:
    """Return the pause before the next poll of an unfinished job."""
    if early:
        # The server responded before the poll was over: it is shutting down.
        return policy.backoff(early)
    if poll_s:
        return 0.0
    wanted = response.retry_after_s
    return policy.spread(DEFAULT_PAUSE_S if wanted is None else wanted)
