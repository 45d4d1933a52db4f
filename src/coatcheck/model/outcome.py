"""How an attempt ended, as its worker reports it. What becomes of the job is decided from it in
`transition.settled`, where the job's attempts and a request to cancel are known.
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
    """The attempt failed and may be tried again `retry_after_ms` later, if any attempt is left."""

    error: Failure
    retry_after_ms: int
    reason: Reason = Reason.ERROR


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The attempt failed in a way that no other attempt would mend."""

    error: Failure
    reason: Reason = Reason.ERROR


@dataclass(frozen=True, slots=True)
class Released:
    """The job is given back untouched and the attempt does not count."""

    retry_after_ms: int = 0
    error: Failure | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The handler stopped because somebody cancelled the job."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The handler waits and was unwound; the attempt goes on later.

    It goes on at `until`, if that is a time, or when all of one group of `groups` is there. A group
    is names of what may come: `child_finished` and `event_sent` in `coatcheck.model.step`. Each has
    at least one: who waits for nothing does not wait.
    """

    until: int | None = None
    groups: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        if not all(self.groups):
            raise ValueError("a job cannot wait for a group that names nothing")


Outcome = Succeeded | Errored | GaveUp | Released | Cancelled | Waiting
