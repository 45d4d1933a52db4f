"""A job as a card shows it: a title, how far it is, a line for each step, and what can be done.

Everything on it is known elsewhere (the job, its steps, the caller's key); here it is put so that
whoever draws it, a page or a chat, has nothing to work out:

- The *title* is the label `title` of the job, else its kind.
- Steps of one name are one *line* with how many of how many. Which steps are still to come is known
  to the surface that has declared its kind (`planned`), or to nobody.
- A step is on record once it is done. The one under way is told by the job's phase, where that has
  the name of a step.
- The *percentage* is the share of the planned steps that are done, if there are several: each name
  counts the same, and a name with a known number of steps counts by how many of them are done. Else
  it is what the job says of its own progress.
- An *action* is the address to post to where the job's state and the caller's key allow it now, and
  null otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from coatcheck.http.endpoint import Schema
from coatcheck.model.job import Job
from coatcheck.model.state import State
from coatcheck.model.step import Step, StepState

TITLE = "title"
# Not before the job has ended well: what it says of itself may be all done while it is not.
ALMOST = 99


class PlannedStep(NamedTuple):
    """A step that a job goes through, and how often; None where that is not known yet."""

    name: str
    total: int | None = 1


class StepLineState(StrEnum):
    """How the steps of one name stand."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"  # it was under way when the job was cancelled
    SKIPPED = "skipped"  # the job has succeeded without it


def card_view(
    job: Job,
    steps: Sequence[Step],
    planned: Sequence[PlannedStep],
    seconds_left: int | None,
    actions: Mapping[str, str | None],
) -> dict[str, Any]:
    """Return a job's card."""
    lines = list(_lines(job, steps, planned))
    return {
        "title": job.labels.get(TITLE) or job.kind,
        "state": job.state,
        "percent": _percent(job, lines if len(planned) > 1 else ()),
        "steps": lines,
        "message": _message(job),
        "eta_s": None if job.state.is_terminal else seconds_left,
        "actions": dict(actions),
    }


def _percent(job: Job, planned: Sequence[Mapping[str, Any]]) -> int | None:
    """Return how far a job is: by its planned steps if it has several, else by its progress."""
    if job.state is State.SUCCEEDED:
        return 100
    if planned:
        shares = [line["done"] / line["total"] if line["total"] else 0 for line in planned]
        return min(ALMOST, int(100 * sum(shares) / len(shares)))
    progress = job.progress
    if progress is not None and progress.total is not None and progress.total > 0:
        return max(0, min(ALMOST, int(100 * progress.done / progress.total)))
    return 0 if job.started_at is None else None


def _message(job: Job) -> str | None:
    if job.state is State.FAILED and job.error is not None:
        return job.error.message
    if job.state.is_terminal:
        return None
    said = None if job.progress is None else job.progress.message
    return said or job.phase


def _lines(
    job: Job, steps: Iterable[Step], planned: Iterable[PlannedStep]
) -> Iterable[dict[str, Any]]:
    taken: dict[str, list[Step]] = {}
    for step in steps:
        taken.setdefault(step.id.name, []).append(step)
    totals = dict(planned)
    # An ended job has no phase: it came to its end in the first line that is not complete.
    ended_here = job.state in (State.FAILED, State.CANCELLED) and job.started_at is not None
    for name in dict.fromkeys((*totals, *taken)):
        found = taken.get(name, [])
        done = sum(step.state is StepState.SUCCEEDED for step in found)
        total = totals.get(name, len(found))
        if total is not None:
            total = max(total, len(found))
        state = _state_of(job, found, complete=done == total, here=ended_here or job.phase == name)
        ended_here = ended_here and done == total
        yield {
            "name": name,
            "state": state,
            "done": done,
            "total": total,
            "ms": sum(_took(step) for step in found),
            "attempts": max((step.attempts for step in found), default=0),
        }


def _state_of(job: Job, found: Sequence[Step], *, complete: bool, here: bool) -> StepLineState:
    """Return how a line stands; `here` is where the job is, or came to its end."""
    states = {step.state for step in found}
    if complete:
        return StepLineState.SUCCEEDED
    match job.state:
        case State.SUCCEEDED if StepState.FAILED not in states:
            return StepLineState.SUCCEEDED if found else StepLineState.SKIPPED
        case State.RUNNING if here and StepState.WAITING not in states:
            return StepLineState.RUNNING
        case State.CANCELLED if here:
            return StepLineState.CANCELLED
        case State.FAILED if here:
            return StepLineState.FAILED
    if StepState.FAILED in states:
        return StepLineState.FAILED
    return StepLineState.WAITING if StepState.WAITING in states else StepLineState.PENDING


def _took(step: Step) -> int:
    return 0 if step.finished_at is None else max(0, step.finished_at - step.started_at)


_COUNT: Schema = {"type": "integer", "minimum": 0}
_LINK: Schema = {
    "type": ["string", "null"],
    "description": "Where to post to; null where it cannot be done now, or not with this key.",
}
ACTIONS = ("cancel", "resume", "fork")


def _whole(properties: dict[str, Schema]) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


CARD: Schema = _whole(
    {
        "title": {"type": "string"},
        "state": {"type": "string", "enum": list(State)},
        "percent": {"type": ["integer", "null"], "minimum": 0, "maximum": 100},
        "steps": {
            "type": "array",
            "items": _whole(
                {
                    "name": {"type": "string"},
                    "state": {"type": "string", "enum": list(StepLineState)},
                    "done": _COUNT,
                    "total": {"type": ["integer", "null"], "minimum": 0},
                    "ms": _COUNT,
                    "attempts": _COUNT,
                }
            ),
        },
        "message": {"type": ["string", "null"]},
        "eta_s": {"type": ["integer", "null"], "minimum": 0},
        "actions": _whole(dict.fromkeys(ACTIONS, _LINK)),
    }
)
# One event of the stream of cards.
STREAMED_CARD: Schema = {
    "type": "object",
    "description": "One event; its data is the JSON of a Card.",
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9]+$"},
        "event": {"enum": ["card", "end"]},
        "data": {"type": "string"},
        "retry": {"type": "integer"},
    },
}
