"""Calling a handler, and turning whatever comes out of it into an Outcome."""

from __future__ import annotations

import asyncio
import logging
import math
from concurrent.futures import Future
from contextlib import AbstractContextManager

from pydantic_core import PydanticSerializationError

from coatcheck import tracing
from coatcheck.engine.payloads.payloads import unreadable_input_outcome
from coatcheck.errors import Fail, InvalidPayload, JobError, Retry, StepsChanged, StoreError
from coatcheck.model.duration import LONGEST_MS
from coatcheck.model.job import Claim, Failure
from coatcheck.model.kind import Kind
from coatcheck.model.outcome import Errored, GaveUp, Outcome, Released, Succeeded
from coatcheck.model.payload import is_reference
from coatcheck.model.size import in_megabytes
from coatcheck.model.text import storable
from coatcheck.worker.attempts.failure import LONGEST_MESSAGE, trace_of, words_of
from coatcheck.worker.attempts.interrupts import Interrupted
from coatcheck.worker.steps.context import Context

log = logging.getLogger(__name__)

# The codes of attempts that took more than they may, or their process along.
OUT_OF_MEMORY = "out-of-memory"
PROCESS_DIED = "worker-process-died"

# A job that waits for something to be reachable again looks at least this often.
LONGEST_UNCOUNTED_MS = 30_000


class InputUnreadable(Exception):
    """The input of a job is kept apart and could not be read; `why` says what was wrong."""

    def __init__(self, why: StoreError) -> None:
        super().__init__(str(why))
        self.why = why


async def run_async(kind: Kind, context: Context, claim: Claim) -> Outcome:
    """Run an `async def` handler to its end. Never raises, not even when it is cancelled."""
    if not tracing.is_on():
        return await _run_async(kind, context, claim)
    with _span(claim) as span:
        outcome = await _run_async(kind, context, claim)
        span.ended(type(outcome).__name__)
    return outcome


def run_blocking(kind: Kind, context: Context, claim: Claim) -> Outcome:
    """Run a `def` handler to its end. Never raises."""
    if not tracing.is_on():
        return _run_blocking(kind, context, claim)
    with _span(claim) as span:
        outcome = _run_blocking(kind, context, claim)
        span.ended(type(outcome).__name__)
    return outcome


def _span(claim: Claim) -> AbstractContextManager[tracing.AttemptSpan]:
    return tracing.attempting(claim.kind, claim.lease.job_id, claim.attempt, claim.traceparent)


async def _run_async(kind: Kind, context: Context, claim: Claim) -> Outcome:
    try:
        await context.begin_async(asyncio.current_task())
        if kind.takes_input:
            text = claim.input
            if is_reference(text):
                text = await _fetched(context)
            value = await kind.handler(context, kind.read_input(text))
        else:
            value = await kind.handler(context)
        return context.waiting or _returned(kind, context, value)
    except BaseException as error:  # noqa: BLE001 - a handler must not take its worker along
        return context.waiting or outcome_of(error, kind, claim)


def _run_blocking(kind: Kind, context: Context, claim: Claim) -> Outcome:
    try:
        context.begin_blocking()
        if kind.takes_input:
            text = claim.input
            if is_reference(text):
                text = read_apart(context.read_input())
            value = kind.handler(context, kind.read_input(text))
        else:
            value = kind.handler(context)
        return context.waiting or _returned(kind, context, value)
    except BaseException as error:  # noqa: BLE001 - a handler must not take its worker along
        return context.waiting or outcome_of(error, kind, claim)


async def _fetched(context: Context) -> str:
    try:
        return await asyncio.wrap_future(context.read_input())
    except StoreError as error:
        raise InputUnreadable(error) from error


def read_apart(reading: Future[str]) -> str:
    """Wait for an input that is kept apart; raises InputUnreadable."""
    try:
        return reading.result()
    except StoreError as error:
        raise InputUnreadable(error) from error


def outcome_of(error: BaseException, kind: Kind, claim: Claim) -> Outcome:
    """Say what an exception means for its job."""
    match error:
        case Fail():
            return GaveUp(Failure(storable(error.code), storable(error.message)))
        case JobError():
            # Of a job that this one has spawned. It has ended: another attempt would find it so.
            return GaveUp(Failure("child-failed", storable(str(error))))
        case StepsChanged():
            return GaveUp(Failure(error.code, storable(str(error))))
        case InvalidPayload():
            # It was checked when it was submitted: the code has changed since. Trying again won't.
            return GaveUp(Failure(error.code, str(error)))
        case InputUnreadable():
            return unreadable_input_outcome(error.why, claim_delay(kind, claim))
        case Retry():
            failure = Failure("retry", storable(error.message), retryable=True)
            delay = _asked_delay(error, kind, claim)
            return Errored(failure, delay) if error.counts else Released(delay, failure)
        case asyncio.CancelledError() | Interrupted():
            failure = Failure("interrupted", "the handler was interrupted", retryable=True)
            return Errored(failure, claim_delay(kind, claim))
    code, words = "handler-error", words_of(error)
    if isinstance(error, MemoryError) and kind.isolation == "process":
        code, words = OUT_OF_MEMORY, _words_on_memory(kind)
    log.warning(
        "a handler raised",
        exc_info=error,
        extra={
            "job_id": claim.lease.job_id,
            "kind": kind.name,
            "attempt": claim.attempt,
            "correlation_id": claim.correlation_id,
        },
    )
    failure = Failure(code, words, trace_of(error), retryable=True)
    return Errored(failure, claim_delay(kind, claim))


def claim_delay(kind: Kind, claim: Claim) -> int:
    """Return how long to wait before the attempt after this one."""
    return kind.backoff.delay(max(1, claim.attempt))


def _asked_delay(error: Retry, kind: Kind, claim: Claim) -> int:
    if error.after is None or not math.isfinite(error.after):
        if error.counts:
            return claim_delay(kind, claim)
        # Attempts that do not count do not add up: how often it was claimed does. What was away
        # may be back any moment, so it is not left alone for long.
        return min(LONGEST_UNCOUNTED_MS, kind.backoff.delay(max(1, claim.lease.fence)))
    return min(LONGEST_MS, max(0, round(error.after * 1000)))


def _words_on_memory(kind: Kind) -> str:
    if kind.memory is None:
        return "the handler needed more memory than there was"
    return f"the handler needed more memory than its kind may use ({in_megabytes(kind.memory)})"


def _returned(kind: Kind, context: Context, value: object) -> Outcome:
    context.check_end()
    return _succeeded(kind, value)


def _succeeded(kind: Kind, value: object) -> Outcome:
    try:
        return Succeeded(kind.write_result(value))
    except (PydanticSerializationError, ValueError) as error:
        # The work was done; doing it again would give the same unusable value.
        message = f"the result of kind {kind.name!r} cannot be written as JSON: {error}"
        return GaveUp(Failure("invalid-result", storable(message[:LONGEST_MESSAGE])))
