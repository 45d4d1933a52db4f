"""What to write about an attempt that has ended, or that was left behind."""

from __future__ import annotations

from dataclasses import replace

from coatcheck.engine.maintenance.metrics import Metrics
from coatcheck.model.job import Failure
from coatcheck.model.outcome import (
    Cancelled,
    Errored,
    GaveUp,
    Outcome,
    Released,
    Succeeded,
    Waiting,
)
from coatcheck.model.state import Reason
from coatcheck.store.base import Report, Settlement
from coatcheck.worker.attempts.attempt import OUT_OF_MEMORY, PROCESS_DIED, claim_delay
from coatcheck.worker.attempts.execution import Execution
from coatcheck.worker.attempts.interrupts import Interrupt


def settlements_of(execution: Execution, outcome: Outcome | None) -> list[Settlement]:
    """Return the settlement of an attempt (None: its handler has not returned), if it has one."""
    verdict = _verdict(execution, outcome)
    if verdict is None:
        return []
    if isinstance(verdict, Errored) and execution.kind.on_overrun == "fail":
        verdict = _final(verdict)
    report, files = execution.context.take_report(), execution.context.take_files()
    if files:
        report = (report or Report())._replace(files=files)
    return [Settlement(execution.claim.lease, verdict, report)]


def _verdict(execution: Execution, outcome: Outcome | None) -> Outcome | None:
    """A success is a success, else what counts is why it was stopped."""
    if execution.interrupted is Interrupt.LOST:
        return None
    untouched = execution.interrupted is None
    if outcome is not None and (untouched or isinstance(outcome, Succeeded | Waiting)):
        return outcome
    match execution.interrupted:
        case Interrupt.CANCEL:
            return Cancelled()
        case Interrupt.DRAIN:
            # What must not be run twice is lost with its worker; the rest is taken up by another.
            return None if execution.kind.on_drain == "fail" else Released()
    seconds = execution.claim.terms.timeout_ms / 1000
    error = Failure("timeout", f"the job ran out of time ({seconds:g} s an attempt)")
    return Errored(error, claim_delay(execution.kind, execution.claim), Reason.TIMEOUT)


def _final(errored: Errored) -> Outcome:
    """Let what ran out of time or memory, or ended its process, not do so again."""
    error, reason = errored.error, errored.reason
    if reason is Reason.TIMEOUT or error.code in (OUT_OF_MEMORY, PROCESS_DIED):
        return GaveUp(replace(error, retryable=False), reason)
    return errored


def count(metrics: Metrics, execution: Execution, settlement: Settlement) -> None:
    """Count how an attempt ended."""
    claim = execution.claim
    ran_ms = round(1000 * max(0.0, execution.ended_at - execution.started_at))
    last = claim.attempt >= claim.terms.max_attempts
    metrics.settled(claim.kind, claim.queue, settlement.outcome, last=last, ran_ms=ran_ms)
