"""Calling a handler, and turning its return value or exception into an outcome."""

from __future__ import annotations

import asyncio
import logging
import math
from concurrent.futures import Future
from contextlib import AbstractContextManager

from pydantic_core import PydanticSerializationError

from coatcheck.engine.payloads.payloads import unreadable_input_outcome
from coatcheck.errors import Fail, InvalidPayload, JobError, Retry, StepsChanged, StoreError
from coatcheck.model.duration import LONGEST_MS
from coatcheck.model.job import Claim, Failure
from coatcheck.model.kind import Kind
from coatcheck.model.outcome import Errored, GaveUp, Outcome, Released, Succeeded
from coatcheck.model.payload import is_reference
from coatcheck.model.size import in_megabytes
from coatcheck.model.text import storable
from coatcheck.tracing import AttemptSpan
from coatcheck.worker.attempts.failure import LONGEST_MESSAGE, describe_error, format_traceback
from coatcheck.worker.attempts.interrupts import Interrupted
from coatcheck.worker.steps.context import Context

log = logging.getLogger(__name__)

# Error codes for attempts that exceeded a limit or killed their process.
OUT_OF_MEMORY = "out-of-memory"
PROCESS_DIED = "worker-process-died"

# A job that waits for an unreachable service retries at least this often.
MAX_UNCOUNTED_DELAY_MS = 30_000


class InputUnavailable(Exception):
    """The offloaded input of a job could not be read; `why` is the cause."""

    def __init__(self, why: StoreError) -> None:
        super().__init__(str(why))
        self.why = why


async def run_async(kind: Kind, context: Context, claim: Claim) -> Outcome:
    """Run an `async def` handler to its end. Never raises, not even if it is cancelled."""
    if not context.tracing.is_on:
        return await _run_async(kind, context, claim)
    with _span(context, claim) as span:
        outcome = await _run_async(kind, context, claim)
        span.set_outcome(type(outcome).__name__)
    return outcome


def run_blocking(kind: Kind, context: Context, claim: Claim) -> Outcome:
    """Run a `def` handler to its end. Never raises."""
    if not context.tracing.is_on:
        return _run_blocking(kind, context, claim)
    with _span(context, claim) as span:
        outcome = _run_blocking(kind, context, claim)
        span.set_outcome(type(outcome).__name__)
    return outcome


def _span(context: Context, claim: Claim) -> AbstractContextManager[AttemptSpan]:
    job_id, attempt = claim.lease.job_id, claim.attempt
    return context.tracing.attempt_span(claim.kind, job_id, attempt, claim.traceparent)


async def _run_async(kind: Kind, context: Context, claim: Claim) -> Outcome:
    try:
        await context.begin_async(asyncio.current_task())
        if kind.takes_input:
            text = claim.input
            if is_reference(text):
                text = await _read_input(context)
            value = await kind.handler(context, kind.read_input(text))
        else:
            value = await kind.handler(context)
        return context.waiting or _returned(kind, context, value)
    except BaseException as error:  # noqa: BLE001 - the worker survives any handler
        return context.waiting or outcome_of(error, kind, claim)


def _run_blocking(kind: Kind, context: Context, claim: Claim) -> Outcome:
    try:
        context.begin_blocking()
        if kind.takes_input:
            text = claim.input
            if is_reference(text):
                text = await_input(context.read_input())
            value = kind.handler(context, kind.read_input(text))
        else:
            value = kind.handler(context)
        return context.waiting or _returned(kind, context, value)
    except BaseException as error:  # noqa: BLE001 - the worker survives any handler
        return context.waiting or outcome_of(error, kind, claim)


async def _read_input(context: Context) -> str:
    try:
        return await asyncio.wrap_future(context.read_input())
    except StoreError as error:
        raise InputUnavailable(error) from error


def await_input(reading: Future[str]) -> str:
    """Wait for an offloaded input; raise InputUnavailable if it cannot be read."""
    try:
        return reading.result()
    except StoreError as error:
        raise InputUnavailable(error) from error


def outcome_of(error: BaseException, kind: Kind, claim: Claim) -> Outcome:
    """Return the outcome of a handler that raised an exception."""
    match error:
        case Fail():
            return GaveUp(Failure(storable(error.code), storable(error.message)))
        case JobError():
            # A child job has failed for good: another attempt would find it so.
            return GaveUp(Failure("child-failed", storable(str(error))))
        case StepsChanged():
            return GaveUp(Failure(error.code, storable(str(error))))
        case InvalidPayload():
            # The input was valid when it was submitted, so the code has changed. A retry cannot
            # help.
            return GaveUp(Failure(error.code, str(error)))
        case InputUnavailable():
            return unreadable_input_outcome(error.why, retry_delay_ms(kind, claim))
        case Retry():
            failure = Failure("retry", storable(error.message), retryable=True)
            delay = _requested_delay_ms(error, kind, claim)
            return Errored(failure, delay) if error.counts else Released(delay, failure)
        case asyncio.CancelledError() | Interrupted():
            failure = Failure("interrupted", "the handler was interrupted", retryable=True)
            return Errored(failure, retry_delay_ms(kind, claim))
    code, message = "handler-error", describe_error(error)
    if isinstance(error, MemoryError) and kind.isolation == "process":
        code, message = OUT_OF_MEMORY, _describe_memory_limit(kind)
    log.warning(
        "handler failed",
        exc_info=error,
        extra={
            "job_id": claim.lease.job_id,
            "kind": kind.name,
            "attempt": claim.attempt,
            "correlation_id": claim.correlation_id,
        },
    )
    failure = Failure(code, message, format_traceback(error), retryable=True)
    return Errored(failure, retry_delay_ms(kind, claim))


def retry_delay_ms(kind: Kind, claim: Claim) -> int:
    """Return how long to wait before the next attempt."""
    return kind.backoff.delay(max(1, claim.attempt))


def _requested_delay_ms(error: Retry, kind: Kind, claim: Claim) -> int:
    if error.after is None or not math.isfinite(error.after):
        if error.counts:
            return retry_delay_ms(kind, claim)
        # Uncounted attempts all have the same number, but each claim raises the fence. The delay is
        # capped because the service may be back at any moment.
        return min(MAX_UNCOUNTED_DELAY_MS, kind.backoff.delay(max(1, claim.lease.fence)))
    return min(LONGEST_MS, max(0, round(error.after * 1000)))


def _describe_memory_limit(kind: Kind) -> str:
    if kind.memory is None:
        return "the handler ran out of memory"
    return f"the handler exceeded the memory limit of its kind ({in_megabytes(kind.memory)})"


def _returned(kind: Kind, context: Context, value: object) -> Outcome:
    context.check_end()
    try:
        return Succeeded(kind.write_result(value))
    except (PydanticSerializationError, ValueError) as error:
        # Running the job again would give the same unusable value.
        message = f"the result of kind {kind.name!r} is not valid JSON: {error}"
        return GaveUp(Failure("invalid-result", storable(message[:LONGEST_MESSAGE])))
