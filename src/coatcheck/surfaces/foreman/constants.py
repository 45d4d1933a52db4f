"""Names of foreman's jobs, and the document's names for states.

A job is `queued` until it has a target and sets its phase: `loading`, then `working`, in this order
in every attempt. So a reader sees queued, loading, working, done, and never the moment in which a
worker has claimed the job but has no target for it yet.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from coatcheck.model.event import EventType, JobEvent
from coatcheck.model.job import Job
from coatcheck.model.state import State

KIND = "ollama"
SURFACE = "foreman"
# The label that holds the model as the caller named it.
MODEL = "model"
# The resource that a running job holds: a slot of a target (engine/resources.py).
SLOTS = "foreman"

QUEUED, LOADING, WORKING, DONE, FAILED = "queued", "loading", "working", "done", "failed"


def state_of(job: Job) -> str:
    """Return the document's name for a job's state."""
    return state_name(job.state, job.phase)


def state_name(state: State, phase: str | None) -> str:
    """Return the document's name for a state and phase."""
    match state:
        case State.SUCCEEDED:
            return DONE
        case State.FAILED | State.CANCELLED:
            return FAILED
        case State.RUNNING if phase in (LOADING, WORKING):
            return phase
    return QUEUED


def state_after(events: Sequence[JobEvent]) -> str:
    """Return the state of a job after these events."""
    state = QUEUED
    for event in events:
        changed = state_set_by(event)
        state = state if changed is None else changed
    return state


def state_set_by(event: JobEvent) -> str | None:
    """Return the state that an event sets; None if it sets none."""
    if event.type not in (EventType.STATE, EventType.PROGRESS):
        return None
    data = json.loads(event.data)
    if event.type is EventType.PROGRESS:
        phase = data.get("phase")
        return None if phase is None else state_name(State.RUNNING, phase)
    if "cancel_requested" in data:  # the state stays the same
        return None
    return state_name(State(data["state"]), None)
