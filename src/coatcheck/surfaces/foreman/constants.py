"""The names that jobs for Ollama go by, and the states as their document calls them.

A job shows as `queued` until it has a target and says so itself: `loading`, then `working`, in this
order in every attempt. So whoever looks sees queued, loading, working, done, and never the moment
in which a worker has the job and does not know yet where to send it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from coatcheck.model.event import EventType, JobEvent
from coatcheck.model.job import Job
from coatcheck.model.state import State

KIND = "ollama"
SURFACE = "foreman"
# Labels of a job: the model as the caller named it.
MODEL = "model"
# Who sits where (engine/resources.py).
SEATS = "foreman"

QUEUED, LOADING, WORKING, DONE, FAILED = "queued", "loading", "working", "done", "failed"


def state_of(job: Job) -> str:
    """Return a job's state as the document names it."""
    return word_for(job.state, job.phase)


def word_for(state: State, phase: str | None) -> str:
    """Return what the document calls a state, in a phase."""
    match state:
        case State.SUCCEEDED:
            return DONE
        case State.FAILED | State.CANCELLED:
            return FAILED
        case State.RUNNING if phase in (LOADING, WORKING):
            return phase
    return QUEUED


def word_after(events: Sequence[JobEvent]) -> str:
    """Return the state that a job was in after what its log says."""
    word = QUEUED
    for event in events:
        told = told_by(event)
        word = word if told is None else told
    return word


def told_by(event: JobEvent) -> str | None:
    """Return the state that an entry of a job's log tells of; None where it tells of none."""
    if event.type not in (EventType.STATE, EventType.PROGRESS):
        return None
    said = json.loads(event.data)
    if event.type is EventType.PROGRESS:
        phase = said.get("phase")
        return None if phase is None else word_for(State.RUNNING, phase)
    if "cancel_requested" in said:  # it goes on as it was
        return None
    return word_for(State(said["state"]), None)
