"""The checker: replays what happened in a run against the promises P1 to P8.

A run is over, faults and all. What is known of it is put together in a `RunRecord`: which submits
were answered and which were not; every job's row and log as the store shows them; and what handlers
wrote down themselves, apart from the store (`EffectLog`). `check` says which promises that breaks;
none of it depends on how the run came about, on which store it ran, or on what was done to it.

    records = await read_records(store, submits)
    check(Run(submits, records, effects=EffectLog(path).read()))

| | what is checked |
|---|---|
| P1 | every answered submit is there, or its tombstone; one key is one job; nothing was made up |
| P2 | every job was attempted, or cancelled or expired before; it ended or can still run |
| P3 | one end at most, the last in its log; every move is legal, numbered, and the row agrees |
| P4 | a committed step never runs again, by what its body wrote down; each spawn is one job |
| P5 | every start of a handler has its own claim; the result and the log are of the last claim |
| P6 | the log says that orphans were taken back within a lease and two sweeps |
| P7 | each delivery at least once, under one id |
| P8 | nothing of what was purged is in any table |
"""

from __future__ import annotations

from coatcheck.testing.checker import later, promises
from coatcheck.testing.checker.effects import BEGAN, RAN, RETURNED, Effect, EffectLog
from coatcheck.testing.checker.promises import Violation
from coatcheck.testing.checker.replay import replay
from coatcheck.testing.checker.run import (
    Bounds,
    JobRecord,
    Orphan,
    ReceivedWebhook,
    RunRecord,
    Submit,
    first_fence,
    read_records,
)
from coatcheck.testing.checker.steps import spawned_once, steps_run_once

# A broken run breaks many jobs in the same way.
_SHOWN = 20


class PromiseBroken(AssertionError):
    """A run in which a promise was not kept."""

    def __init__(self, violations: list[Violation]) -> None:
        self.violations = violations
        shown = "\n".join(f"  {violation}" for violation in violations[:_SHOWN])
        super().__init__(f"{len(violations)} violations\n{shown}")


def violations_of(run: RunRecord) -> list[Violation]:
    """Return every promise that a run breaks, and where."""
    replays = {record.id: replay(record.events, first_fence(record)) for record in run.records}
    checks = (*promises.CHECKS, steps_run_once, spawned_once, *later.CHECKS)
    return [violation for check in checks for violation in check(run, replays)]


def check(run: RunRecord) -> None:
    """Raise PromiseBroken unless a run keeps every promise."""
    if violations := violations_of(run):
        raise PromiseBroken(violations)


__all__ = [
    "BEGAN",
    "RAN",
    "RETURNED",
    "Bounds",
    "Effect",
    "EffectLog",
    "JobRecord",
    "Orphan",
    "PromiseBroken",
    "ReceivedWebhook",
    "RunRecord",
    "Submit",
    "Violation",
    "check",
    "read_records",
    "violations_of",
]
