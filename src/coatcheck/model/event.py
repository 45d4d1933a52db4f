"""A job's event log: numbered per job, in the transaction of the change."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class EventType(StrEnum):
    """The types of events in a job's log."""

    STATE = "state"
    PROGRESS = "progress"
    LOG = "log"
    STEP = "step"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One event of a job's log; `data` is a JSON text."""

    seq: int
    type: EventType
    at: int
    data: str


class NewJobEvent(NamedTuple):
    """An event that has no number yet."""

    type: EventType
    data: str
