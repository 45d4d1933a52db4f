"""Waiting for a job to end: long polls where they work, plain polls where they are cut.

A wait is made of pieces of up to 25 s, each one long poll. A proxy in between may cut requests that
take longer than it likes, and that looks just like a server that restarts; so one cut says nothing.
Two in a row do: from then on pieces are shorter than what was cut, and where that would be less
than a second the job is asked about plainly, as often as `Retry-After` says. What was learned holds
for all waits of the client, and is put to the test again after a while of good answers.

A server that is away is waited for until the wait's own time is over: the job is durable.
"""

from __future__ import annotations

from typing import Any

from coatcheck.client.effects import Pause, Steps, send
from coatcheck.client.responses import JOB_MEMBERS, read_object
from coatcheck.client.retry import RetryPolicy, is_answer
from coatcheck.client.wire import ApiRequest, ApiResponse, ConnectionLost

LONGEST_PIECE_S = 25.0
SHORTEST_PIECE_S = 1.0
# Beyond the piece itself: the time an answer may take to arrive.
GRACE_S = 10.0
# After so many good answers in a row a longer piece is tried.
GOOD_ANSWERS = 20
UNKNOWN_PAUSE_S = 1.0
_CUT = frozenset({408, 502, 504})


class Pieces:
    """How long a long poll may be on the way to this server; 0 means to poll plainly.

    Threads share it without a lock: at worst one of two lessons at the same time is lost.
    """

    def __init__(self) -> None:
        self.length_s = LONGEST_PIECE_S
        self._good = 0

    def shorten(self, length_s: float) -> None:
        """Learn that longer polls are cut."""
        self._good = 0
        self.length_s = length_s if length_s >= SHORTEST_PIECE_S else 0.0

    def was_answered(self) -> None:
        """Learn from a poll that went well."""
        if self.length_s == LONGEST_PIECE_S:
            return
        self._good += 1
        if self._good >= GOOD_ANSWERS:
            self._good = 0
            self.length_s = min(LONGEST_PIECE_S, max(2 * SHORTEST_PIECE_S, 2 * self.length_s))


class _Cuts:
    """The polls of one wait that were cut, in a row.

    Each wait counts for itself: a server that restarts cuts many waits, each of them once.
    """

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._likely: list[float] = []

    def add(self, asked_s: float, after_s: float) -> None:
        # Beyond what was asked for, it was we who stopped listening.
        self._likely.append(0.8 * after_s if after_s < asked_s else asked_s / 2)
        if len(self._likely) == 2:
            self._pieces.shorten(max(self._likely))
            self._likely = []

    def end(self) -> None:
        self._likely = []
        self._pieces.was_answered()


def wait_for_end(
    patience: RetryPolicy, pieces: Pieces, path: str, timeout_s: float
) -> Steps[dict[str, Any]]:
    """Return a job when it has ended, or as it was last seen when the time runs out.

    Raises Unreachable where it was never seen.
    """
    until = patience.monotonic() + timeout_s
    job: dict[str, Any] | None = None
    cuts = _Cuts(pieces)
    lost = early = 0  # in a row
    while True:
        asked_s = min(pieces.length_s, max(0.0, until - patience.monotonic()))
        began = patience.monotonic()
        got = yield from send(_poll(path, asked_s), asked_s + min(GRACE_S, patience.timeout_s))
        took_s = patience.monotonic() - began
        if is_answer(got):
            job, lost = read_object(got, *JOB_MEMBERS), 0
            cuts.end()
            if job["finished_at"] is not None:
                return job
            early = early + 1 if took_s < 0.9 * asked_s else 0
            pause = _pause_between(patience, got, asked_s, early)
        else:
            if asked_s and _is_cut(got):
                cuts.add(asked_s, took_s)
            pause = patience.pause_after(got, lost)
            lost += 1
        left = until - patience.monotonic()
        if left <= 0 or (isinstance(got, ConnectionLost) and got.hopeless):
            return job if job is not None else read_object(patience.give_up(got))
        if pause:
            yield Pause(min(pause, left))


def _poll(path: str, wait_s: float) -> ApiRequest:
    return ApiRequest("GET", path, (("wait", f"{wait_s:.3f}"),) if wait_s else ())


def _is_cut(got: ApiResponse | ConnectionLost) -> bool:
    return got.connected if isinstance(got, ConnectionLost) else got.status in _CUT


def _pause_between(patience: RetryPolicy, got: ApiResponse, asked_s: float, early: int) -> float:
    """Return how long to rest before the next poll, after one that brought no end."""
    if early:
        # Not waited for as asked: the server is about to stop, and another one will come.
        return patience.backoff(early)
    if asked_s:
        return 0.0
    asked = got.retry_after_s
    return patience.spread(UNKNOWN_PAUSE_S if asked is None else asked)
