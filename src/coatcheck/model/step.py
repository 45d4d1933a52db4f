"""What a job's handler has done so far, one checkpoint after the other.

A step is whatever a handler does once and for all: a function it ran, a time it waited for, an
event from outside, a job it spawned, the results of such jobs. Its identity is what it is (`op`),
its name, and its key; without a key, how many of that name came before it. `seq` is the order in
which the handler first came to its steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from coatcheck.model.job import Failure


class Op(StrEnum):
    """What kind of step it is."""

    STEP = "step"  # a function that was run
    SLEEP = "sleep"
    EVENT = "event"  # something sent from outside
    CHILD = "child"  # a job that was spawned
    GATHER = "gather"  # the results of such jobs


class StepState(StrEnum):
    """How a step stands."""

    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class StepId(NamedTuple):
    """What tells a step from the others of its job."""

    op: Op
    name: str
    key: str | None  # None: it is known by its number among those of its name
    occurrence: int  # 0 where there is a key

    @property
    def label(self) -> str:
        """Return its name and what tells it from others of that name: `charge#0`, `charge/ada`."""
        return f"{self.name}#{self.occurrence}" if self.key is None else f"{self.name}/{self.key}"

    def __str__(self) -> str:
        number = f" (number {self.occurrence + 1})" if self.occurrence else ""
        key = "" if self.key is None else f" with key {self.key!r}"
        return f"{self.op} {self.name!r}{key}{number}"


@dataclass(frozen=True, slots=True)
class Step:
    """A checkpoint. `result` is a JSON text, or a reference to one (model/payload.py). Where a
    `gather` has failed it says which job did not succeed: `{"job", "state"}`.
    """

    seq: int
    id: StepId
    state: StepState
    started_at: int
    finished_at: int | None = None
    attempts: int = 1
    result: str | None = None
    error: Failure | None = None
    wake_at: int | None = None  # when a wait is over, whatever comes
    overlapped: bool = False  # others were, or may have been, under way: its place says nothing
    survived: bool = False  # it failed, and the handler went on


@dataclass(frozen=True, slots=True)
class SentEvent:
    """An event that was sent to a job from outside: the so-many-th of its name, from 0."""

    name: str
    number: int
    data: str  # a JSON text, or a reference to one
    at: int


# They are kept as long as their job, so there is a limit to them.
MOST_MESSAGES = 10_000


def child_finished(job_id: str) -> str:
    """Name what comes when a job ends, for a group of `Waiting`."""
    return f"job:{job_id}"


def event_sent(name: str, number: int) -> str:
    """Name what comes when the so-many-th event of a name is sent to the job itself."""
    return f"event:{number}:{name}"
