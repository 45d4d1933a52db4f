"""The states of a job, and the moves between them.

    queued ──▶ running ──▶ succeeded
      │ ▲        │ │ └───▶ failed, cancelled ──(resume only)──▶ queued
      │ └────────┘ ▼
      │ ◀────── waiting ──▶ cancelled, failed
      └──▶ cancelled, failed (expired)

`MOVES` lists every legal move; every transition is checked against it (`check_move`).
"""

from __future__ import annotations

from enum import StrEnum

from coatcheck.errors import IllegalTransition


class State(StrEnum):
    """The state of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether a job in this state has finished."""
        return self in TERMINAL


class Reason(StrEnum):
    """Why a job is in its state."""

    ERROR = "error"  # the handler raised
    TIMEOUT = "timeout"  # it exceeded its timeout or deadline
    EXPIRED = "expired"  # its deadline passed before it started
    LOST = "lost"  # its worker was lost
    RELEASED = "released"  # its worker released it
    RETRY = "retry"  # it failed and will be retried
    RESUMED = "resumed"  # a caller resumed it
    WAITING = "waiting"  # its handler waits for a time, an event or other jobs
    WOKEN = "woken"  # its wait is over
    CANCELLED = "cancelled"  # a caller cancelled it


TERMINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})

MOVES: dict[State, frozenset[State]] = {
    State.QUEUED: frozenset({State.RUNNING, State.CANCELLED, State.FAILED}),
    State.RUNNING: frozenset(
        {State.SUCCEEDED, State.FAILED, State.CANCELLED, State.WAITING, State.QUEUED}
    ),
    State.WAITING: frozenset({State.QUEUED, State.CANCELLED, State.FAILED}),
    State.FAILED: frozenset({State.QUEUED}),
    State.CANCELLED: frozenset({State.QUEUED}),
    State.SUCCEEDED: frozenset(),
}


def check_move(origin: State, target: State) -> None:
    """Raise IllegalTransition unless a job may move from one state to the other."""
    if target not in MOVES[origin]:
        allowed = ", ".join(sorted(MOVES[origin])) or "none: it is final"
        raise IllegalTransition(f"a {origin} job cannot become {target} (allowed: {allowed})")
