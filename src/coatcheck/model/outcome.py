"""The outcome of an attempt, as its worker reports it.

`transition.settled` decides from it what happens to the job.
"""

from __future__ import annotations

from dataclasses import dataclass

from coatcheck.model.job import Failure
from coatcheck.model.state import Reason


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned; the result is a JSON text."""

    result: str


@dataclass(frozen=True, slots=True)
class Errored:
    """The attempt failed; the job may be retried after `retry_after_ms`, if attempts are left."""

    error: Failure
    retry_after_ms: int
    reason: Reason = Reason.ERROR


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The attempt failed, and a retry would not help."""

    error: Failure
    reason: Reason = Reason.ERROR


@dataclass(frozen=True, slots=True)
class Released:
    """The worker gave the job back; the attempt does not count."""

    retry_after_ms: int = 0
    error: Failure | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The handler stopped because the job was cancelled."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The handler was suspended; the attempt continues later.

    It continues at `until`, if that is a time, or when every name of one of the `groups` has
    occurred. Names are those of `child_finished` and `event_sent` in `coatcheck.model.step`. No
    group is empty.
    """

    until: int | None = None
    groups: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        if not all(self.groups):
            raise ValueError("a job cannot wait for a group that names nothing")


Outcome = Succeeded | Errored | GaveUp | Released | Cancelled | Waiting
