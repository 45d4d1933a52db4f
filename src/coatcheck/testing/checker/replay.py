"""Replay of a job's log: its transitions, and the fence that each claim must have had.

The log does not contain fences, but they follow from it: a claim raises the fence, and so does the
loss of a worker. Only the end of a job that was cancelled while running is ambiguous: its worker
settled it, or its worker was lost. Nothing but a resume can follow that end.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from coatcheck.model.event import EventType, JobEvent
from coatcheck.model.state import MOVES, Reason, State
from coatcheck.model.step import Op, StepId


@dataclass(frozen=True, slots=True)
class LoggedClaim:
    """A claim in a log."""

    seq: int
    attempt: int
    fence: int
    at: int


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """A step in a log, with the fence under which it was written."""

    seq: int  # the step's own number
    op: str
    label: str
    state: str
    attempts: int
    fence: int


@dataclass(slots=True)
class Replay:
    """The result of replaying a log, with the faults found."""

    claims: list[LoggedClaim] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)  # (fence of the claim, time)
    ends: list[State] = field(default_factory=list)
    state: State | None = None
    reason: str | None = None
    attempt: int = 0
    least_fence: int = 0
    most_fence: int = 0
    faults: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    steps: list[LoggedStep] = field(default_factory=list)


def replay(events: Sequence[JobEvent], first_fence: int = 0) -> Replay:
    """Replay a log from its first event to its last."""
    seen = Replay(least_fence=first_fence, most_fence=first_fence)
    numbers = [event.seq for event in events]
    if numbers != list(range(1, len(events) + 1)):
        seen.faults.append(f"its events are numbered {numbers}, not 1 to {len(events)}")
    for event in events:
        data = json.loads(event.data)
        if event.type is EventType.STATE:
            _follow(seen, event, data)
        else:
            _hear(seen, event, data)
    return seen


def _follow(seen: Replay, event: JobEvent, data: dict[str, Any]) -> None:
    state, before = State(data["state"]), seen.state
    if data.get("cancel_requested"):
        if (state, data["attempt"]) != (State.RUNNING, seen.attempt) or state is not before:
            seen.faults.append(f"event {event.seq} asks a {before} job to stop as if {state}")
        return
    if before is None:
        if state is not State.QUEUED:
            seen.faults.append(f"its first state is {state}, not queued")
    elif state not in MOVES[before]:
        seen.faults.append(f"event {event.seq} moves it from {before} to {state}")
    if before is not None and data.get("previous") != before:
        seen.faults.append(f"event {event.seq} says it was {data.get('previous')}, not {before}")
    _count(seen, event, state, data)
    if state.is_terminal:
        seen.ends.append(state)
    elif data.get("reason") == Reason.RESUMED:
        seen.ends.clear()
    seen.state, seen.reason, seen.attempt = state, data.get("reason"), data["attempt"]


def _count(seen: Replay, event: JobEvent, state: State, data: dict[str, Any]) -> None:
    """Check the attempt and update the fence."""
    reason, attempt, due = data.get("reason"), data["attempt"], {seen.attempt}
    if state is State.RUNNING:
        seen.least_fence += 1
        seen.most_fence += 1
        # A claim after a wait is not a new attempt.
        due = {seen.attempt + (seen.reason != Reason.WOKEN)}
        seen.claims.append(LoggedClaim(event.seq, attempt, seen.most_fence, event.at))
    elif seen.state is State.RUNNING and reason == Reason.LOST:
        seen.lost.append((seen.most_fence, event.at))
        seen.least_fence += 1
        seen.most_fence += 1
    elif seen.state is State.RUNNING and state is State.CANCELLED:
        seen.most_fence += 1
    elif reason == Reason.RELEASED:
        due = {seen.attempt - 1}
    elif reason == Reason.RESUMED:
        due = {0}
    if attempt not in due:
        seen.faults.append(
            f"event {event.seq} ({state}) counts attempt {attempt} after {seen.attempt}"
        )


def _hear(seen: Replay, event: JobEvent, data: dict[str, Any]) -> None:
    """Check that a handler's event is of the current claim, if it names a fence."""
    if seen.state is not State.RUNNING:
        seen.stale.append(f"event {event.seq} ({event.type}) was written while it did not run")
    fence = data.get("fence")
    if fence is not None and seen.claims and fence != seen.claims[-1].fence:
        seen.stale.append(
            f"event {event.seq} was said under fence {fence}, when {seen.claims[-1].fence} counted"
        )
    if event.type is EventType.STEP:
        id_ = StepId(Op(data["op"]), data["name"], data["key"], data.get("occurrence", 0))
        written = (data["seq"], data["op"], id_.label, data["state"], data["attempts"])
        seen.steps.append(LoggedStep(*written, seen.most_fence))
