"""Steps: the checkpoints of a job's handler.

A step is anything that a handler does once: a function it ran, a sleep, an event it received, a
child job it spawned, or the results of child jobs. A step is identified by its `op`, its name and
its key; without a key, by its occurrence among the steps of that name. `seq` is the order in which
the handler first reached its steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from coatcheck.model.job import Failure


class Op(StrEnum):
    """The type of a step."""

    STEP = "step"  # a function call
    SLEEP = "sleep"
    EVENT = "event"  # an event that was sent to the job
    CHILD = "child"  # a child job
    GATHER = "gather"  # the results of child jobs


class StepState(StrEnum):
    """The state of a step."""

    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class StepId(NamedTuple):
    """The identity of a step within its job."""

    op: Op
    name: str
    key: str | None  # None: `occurrence` identifies the step
    occurrence: int  # 0 if there is a key

    @property
    def label(self) -> str:
        """The name with the occurrence or the key: `charge#0`, `charge/ada`."""
        return f"{self.name}#{self.occurrence}" if self.key is None else f"{self.name}/{self.key}"

    def __str__(self) -> str:
        number = f" (number {self.occurrence + 1})" if self.occurrence else ""
        key = "" if self.key is None else f" with key {self.key!r}"
        return f"{self.op} {self.name!r}{key}{number}"


@dataclass(frozen=True, slots=True)
class Step:
    """A checkpoint. `result` is a JSON text, or a reference to one (model/payload.py).

    The result of a failed `gather` names the job that did not succeed: `{"job", "state"}`.
    """

    seq: int
    id: StepId
    state: StepState
    started_at: int
    finished_at: int | None = None
    attempts: int = 1
    result: str | None = None
    error: Failure | None = None
    wake_at: int | None = None  # when a wait ends at the latest
    overlapped: bool = False  # other steps may have run at the same time: its order means nothing
    survived: bool = False  # it failed, and the handler continued


@dataclass(frozen=True, slots=True)
class SentEvent:
    """An event that was sent to a job; `number` counts the events of its name, from 0."""

    name: str
    number: int
    data: str  # a JSON text, or a reference to one
    at: int


# Events are kept as long as their job, so their number is limited.
MOST_MESSAGES = 10_000


def child_finished(job_id: str) -> str:
    """Return the name of "this job has finished", for a group of `Waiting`."""
    return f"job:{job_id}"


def event_sent(name: str, number: int) -> str:
    """Return the name of "event `number` of this name was sent", for a group of `Waiting`."""
    return f"event:{number}:{name}"
