"""The progress card of a job: a title, a percentage, one entry for each step name, and actions.

A card combines the job, its steps and the caller's permissions, so that a page or a chat can render
it without further logic:

- The *title* is the job's label `title`, else its kind.
- Steps of one name are one *entry*, with the number done and the total. Only the surface that
  declared the kind knows steps that have not started (`Surface.planned_steps`).
- A step is recorded once it is done. The step in progress is the one named by the job's phase.
- The *percentage* is the share of planned steps that are done, if there are several. Each name
  counts the same; a name with a known total counts by the share of its steps. Otherwise the
  percentage is the progress that the job reported.
- An *action* is a path to POST to, or null if the job's state or the caller's key does not allow
  it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coatcheck.documents.jobs import CardActions, CardDocument, CardStep, StepLineState
from coatcheck.model.job import Job
from coatcheck.model.state import State
from coatcheck.model.step import Step, StepState

TITLE = "title"
# 100 is for jobs that succeeded: reported progress may be complete before that.
MAX_UNFINISHED = 99


class PlannedStep(NamedTuple):
    """A step that a job goes through, and how often; None if that is not known yet."""

    name: str
    total: int | None = 1


def card_view(
    job: Job,
    steps: Sequence[Step],
    planned: Sequence[PlannedStep],
    seconds_left: int | None,
    actions: CardActions,
) -> CardDocument:
    """Return a job's card."""
    entries = list(_entries(job, steps, planned))
    return {
        "title": job.labels.get(TITLE) or job.kind,
        "state": job.state,
        "percent": _percent(job, entries if len(planned) > 1 else ()),
        "steps": entries,
        "message": _message(job),
        "eta_s": None if job.state.is_terminal else seconds_left,
        "actions": actions,
    }


def _percent(job: Job, planned: Sequence[CardStep]) -> int | None:
    """Return the percentage by planned steps if there are several, else by reported progress."""
    if job.state is State.SUCCEEDED:
        return 100
    if planned:
        shares = [each["done"] / each["total"] if each["total"] else 0 for each in planned]
        return min(MAX_UNFINISHED, int(100 * sum(shares) / len(shares)))
    progress = job.progress
    if progress is not None and progress.total is not None and progress.total > 0:
        return max(0, min(MAX_UNFINISHED, int(100 * progress.done / progress.total)))
    return 0 if job.started_at is None else None


def _message(job: Job) -> str | None:
    if job.state is State.FAILED and job.error is not None:
        return job.error.message
    if job.state.is_terminal:
        return None
    message = None if job.progress is None else job.progress.message
    return message or job.phase


def _entries(job: Job, steps: Iterable[Step], planned: Iterable[PlannedStep]) -> Iterable[CardStep]:
    by_name: dict[str, list[Step]] = {}
    for step in steps:
        by_name.setdefault(step.id.name, []).append(step)
    totals = dict(planned)
    # A finished job has no phase: it stopped in the first entry that is not complete.
    stopped_here = job.state in (State.FAILED, State.CANCELLED) and job.started_at is not None
    for name in dict.fromkeys((*totals, *by_name)):
        found = by_name.get(name, [])
        done = sum(step.state is StepState.SUCCEEDED for step in found)
        total = totals.get(name, len(found))
        if total is not None:
            total = max(total, len(found))
        state = _state_of(
            job, found, complete=done == total, here=stopped_here or job.phase == name
        )
        stopped_here = stopped_here and done == total
        yield {
            "name": name,
            "state": state,
            "done": done,
            "total": total,
            "ms": sum(_duration(step) for step in found),
            "attempts": max((step.attempts for step in found), default=0),
        }


def _state_of(job: Job, found: Sequence[Step], *, complete: bool, here: bool) -> StepLineState:
    """Return the state of an entry; `here` means that the job is in it, or stopped in it."""
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


def _duration(step: Step) -> int:
    return 0 if step.finished_at is None else max(0, step.finished_at - step.started_at)
