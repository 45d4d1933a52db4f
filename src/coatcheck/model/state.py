"""The states of a job and the moves between them.

    queued ──▶ running ──▶ succeeded
      │ ▲        │ │ └───▶ failed, cancelled ──(resume only)──▶ queued
      │ └────────┘ ▼
      │ ◀────── waiting ──▶ cancelled, failed
      └──▶ cancelled, failed (expired)

`MOVES` is the whole truth; every transition in the engine goes through `check_move`.
"""

from __future__ import annotations

from enum import StrEnum

from coatcheck.errors import IllegalTransition


class State(StrEnum):
    """Where a job is in its life."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether a job in this state has ended."""
        return self in TERMINAL


class Reason(StrEnum):
    """Why a job is in its state, where the state alone does not say."""

    ERROR = "error"  # the handler raised
    TIMEOUT = "timeout"  # it ran into its timeout or its deadline
    EXPIRED = "expired"  # it was not started in the time it had
    LOST = "lost"  # its worker disappeared
    RELEASED = "released"  # its worker gave it back
    RETRY = "retry"  # it failed and will be tried again
    RESUMED = "resumed"  # somebody resumed it after it had ended
    WAITING = "waiting"  # its handler waits: for a time, an event, other jobs
    WOKEN = "woken"  # what it waited for is there
    CANCELLED = "cancelled"  # somebody cancelled it


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
    """Raise IllegalTransition unless a job may go from one state to the other."""
    if target not in MOVES[origin]:
        allowed = ", ".join(sorted(MOVES[origin])) or "none: it is final"
        raise IllegalTransition(f"a {origin} job cannot become {target} (allowed: {allowed})")
