"""Checker: replays the record of a run against the promises P1 to P8.

A `RunRecord` collects everything known about a finished run, including one with faults: which
submits were answered, every job's row and event log as the store returns them, and the side effects
that handlers wrote outside the store (`EffectLog`). `check` reports the promises that the run
breaks. The checks depend neither on the store, nor on the workload, nor on the injected faults.

    records = await read_records(store, submits)
    check(RunRecord(submits, records, effects=EffectLog(path).read()))

| | check |
|---|---|
| P1 | every answered submit has a job or a tombstone; one key is one job; every job was submitted |
| P2 | every job was attempted, or cancelled or expired before; it finished or can still run |
| P3 | one final state at most, the last one; transitions are legal and numbered; the row agrees |
| P4 | a committed step never runs again, as its body's side effects show; each spawn is one job |
| P5 | every handler start has its own claim; the result and the log are of the last claim |
| P6 | the log shows that orphans were reclaimed within a lease and two sweeps |
| P7 | each delivery arrived at least once, with one id |
| P8 | no table contains anything of a purged job |
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
    """A run that broke at least one promise."""

    def __init__(self, violations: list[Violation]) -> None:
        self.violations = violations
        shown = "\n".join(f"  {violation}" for violation in violations[:_SHOWN])
        super().__init__(f"{len(violations)} violations\n{shown}")


def violations_of(run: RunRecord) -> list[Violation]:
    """Return every violation of a promise in a run."""
    replays = {record.id: replay(record.events, first_fence(record)) for record in run.records}
    checks = (*promises.CHECKS, steps_run_once, spawned_once, *later.CHECKS)
    return [violation for check in checks for violation in check(run, replays)]


def check(run: RunRecord) -> None:
    """Raise `PromiseBroken` unless a run keeps every promise."""
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
