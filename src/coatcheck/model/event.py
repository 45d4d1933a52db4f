"""What happened to a job, in order: numbered per job, in the transaction that made it happen."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class EventType(StrEnum):
    """The kinds of entries in a job's log."""

    STATE = "state"
    PROGRESS = "progress"
    LOG = "log"
    STEP = "step"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One entry of a job's log; `data` is a JSON text."""

    seq: int
    type: EventType
    at: int
    data: str


class NewJobEvent(NamedTuple):
    """An entry that has no number yet."""

    type: EventType
    data: str
