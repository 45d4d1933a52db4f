"""Settlements of attempts that have ended or were abandoned."""

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
from coatcheck.worker.attempts.attempt import OUT_OF_MEMORY, PROCESS_DIED, retry_delay_ms
from coatcheck.worker.attempts.execution import Execution
from coatcheck.worker.attempts.interrupts import Interrupt


def make_settlements(execution: Execution, outcome: Outcome | None) -> list[Settlement]:
    """Return the settlement of an attempt, if it has one. Outcome None: its handler has not
    returned.
    """
    effective = _effective_outcome(execution, outcome)
    if effective is None:
        return []
    if isinstance(effective, Errored) and execution.kind.on_overrun == "fail":
        effective = _final(effective)
    report, files = execution.context.take_report(), execution.context.take_files()
    if files:
        report = (report or Report())._replace(files=files)
    return [Settlement(execution.claim.lease, effective, report)]


def _effective_outcome(execution: Execution, outcome: Outcome | None) -> Outcome | None:
    """Return the outcome to write. A success stands; otherwise the interrupt decides."""
    if execution.interrupted is Interrupt.LOST:
        return None
    untouched = execution.interrupted is None
    if outcome is not None and (untouched or isinstance(outcome, Succeeded | Waiting)):
        return outcome
    match execution.interrupted:
        case Interrupt.CANCEL:
            return Cancelled()
        case Interrupt.DRAIN:
            # A job that must not run twice is lost with its worker; another worker runs any other.
            return None if execution.kind.on_drain == "fail" else Released()
    seconds = execution.claim.terms.timeout_ms / 1000
    error = Failure("timeout", f"the attempt exceeded its timeout of {seconds:g} s")
    return Errored(error, retry_delay_ms(execution.kind, execution.claim), Reason.TIMEOUT)


def _final(errored: Errored) -> Outcome:
    """Make an outcome final if the attempt exceeded a limit or killed its process."""
    error, reason = errored.error, errored.reason
    if reason is Reason.TIMEOUT or error.code in (OUT_OF_MEMORY, PROCESS_DIED):
        return GaveUp(replace(error, retryable=False), reason)
    return errored


def count_outcome(metrics: Metrics, execution: Execution, settlement: Settlement) -> None:
    """Count an attempt's outcome in the metrics."""
    claim = execution.claim
    ran_ms = round(1000 * max(0.0, execution.ended_at - execution.started_at))
    last = claim.attempt >= claim.terms.max_attempts
    metrics.settled(claim.kind, claim.queue, settlement.outcome, last=last, ran_ms=ran_ms)
