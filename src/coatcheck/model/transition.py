"""The life of a job as pure functions: the effect of each event on a job's status.

A store reads a job's `JobStatus` inside its transaction, calls one of these functions, and writes
the returned status and event in the same transaction. So each rule exists once, for every store:
when an attempt counts, what a lost worker means, who wins when a cancel races a completion. An
illegal move raises.

Rules:

- A claim raises the fence and adds an attempt. A job that comes back from waiting continues its
  attempt, so its claim adds none. A release takes the attempt back, but not the fence.
- Losing the worker raises the fence too. So a job that is not running but still has a lease's fence
  was settled under that lease. A repeated settle, after a response that was lost, is recognized by
  that and changes nothing.
- A request to cancel a running job only sets a flag. The next settle decides: a success remains a
  success, a handler that gave up has failed, and anything else becomes cancelled.
- Events without a fence (cancel, worker lost, expired, overrun) move a job only from the states
  named here. From any other state the function returns None, and the store writes nothing.
- The worker enforces a deadline while it runs the job. If it has not settled the job `OVERRUN_MS`
  after the deadline, which is longer than it gives a handler to stop, it loses the job like a
  worker that died. So an input is deleted on time, whatever happened to the handler that reads it.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from coatcheck.errors import IllegalTransition
from coatcheck.model.job import Failure, Terms
from coatcheck.model.outcome import (
    Cancelled,
    Errored,
    GaveUp,
    Outcome,
    Released,
    Succeeded,
    Waiting,
)
from coatcheck.model.state import Reason, State, check_move

# The wake-up time of a job that waits without a time limit.
NEVER = 253_402_300_799_999
# How long after its deadline a running job is left to its worker.
OVERRUN_MS = 60_000


class JobStatus(NamedTuple):
    """The part of a job that transitions change."""

    state: State
    claimable: bool  # queued and due: in the index that claims read
    phase: str | None
    reason: Reason | None
    attempt: int
    fence: int
    worker: str | None
    run_at: int
    started_at: int | None
    finished_at: int | None
    expires_at: int | None
    cancel_requested: bool
    error: Failure | None
    last_event: int


class Transition(NamedTuple):
    """A job's next status, and the data of the event that records it."""

    status: JobStatus
    event: str


def created(run_at: int, now: int) -> Transition:
    """Return the first status of a job: queued, and claimable if it is due."""
    status = JobStatus(
        state=State.QUEUED,
        claimable=run_at <= now,
        phase=None,
        reason=None,
        attempt=0,
        fence=0,
        worker=None,
        run_at=run_at,
        started_at=None,
        finished_at=None,
        expires_at=None,
        cancel_requested=False,
        error=None,
        last_event=1,
    )
    return Transition(status, '{"state":"queued","attempt":0}')


def claimed(status: JobStatus, worker: str, now: int) -> Transition:
    """Apply a claim by a worker."""
    return _move(
        status,
        State.RUNNING,
        claimable=False,
        reason=None,
        attempt=status.attempt + (status.reason is not Reason.WOKEN),
        fence=status.fence + 1,
        worker=worker,
        started_at=now,
    )


def settled(status: JobStatus, terms: Terms, outcome: Outcome, now: int) -> Transition:
    """Apply the outcome that the lease holder reported; the store has compared the fence."""
    if status.state is not State.RUNNING:
        raise IllegalTransition(f"a {status.state} job has no attempt to settle")
    match outcome:
        case Succeeded():
            return _end(status, terms, State.SUCCEEDED, None, None, now)
        case Cancelled():
            return _cancelled(status, terms, now)
        case GaveUp(error, reason):
            return _end(status, terms, State.FAILED, reason, error, now)
        case Errored() | Released() | Waiting() if status.cancel_requested:
            return _cancelled(status, terms, now)
        case Errored(error, delay, reason):
            too_late = terms.deadline_at is not None and now + delay >= terms.deadline_at
            if status.attempt >= terms.max_attempts or too_late:
                return _end(status, terms, State.FAILED, reason, error, now)
            return _requeue(status, Reason.RETRY, now + delay, now, error)
        case Released(delay, error):
            released = status._replace(attempt=status.attempt - 1)
            return _requeue(released, Reason.RELEASED, now + delay, now, error or status.error)
        case Waiting(until):
            return _wait(status, NEVER if until is None else until)


def woken(status: JobStatus, terms: Terms, now: int) -> Transition | None:  # noqa: ARG001 - a rule
    """Apply the end of the job's wait."""
    if status.state is not State.WAITING:
        return None
    return _requeue(status, Reason.WOKEN, now, now, status.error)


def resumed(status: JobStatus, terms: Terms, now: int) -> Transition | None:  # noqa: ARG001 - a rule
    """Apply a resume of a failed or cancelled job; its attempts start over."""
    if status.state not in (State.FAILED, State.CANCELLED):
        return None
    fresh = status._replace(attempt=0, finished_at=None, expires_at=None, cancel_requested=False)
    return _requeue(fresh, Reason.RESUMED, now, now, None)


def lost(status: JobStatus, terms: Terms, now: int) -> Transition | None:
    """Apply the loss of the job's worker."""
    if status.state is not State.RUNNING:
        return None
    status = status._replace(fence=status.fence + 1)
    if status.cancel_requested:
        return _cancelled(status, terms, now)
    if terms.on_lost == "fail" or status.attempt >= terms.max_attempts:
        attempt = f"attempt {status.attempt} of {terms.max_attempts}"
        error = Failure("lost", f"the worker that ran the job was lost ({attempt})")
        return _end(status, terms, State.FAILED, Reason.LOST, error, now)
    return _requeue(status, Reason.LOST, now, now, status.error)


def request_cancel(status: JobStatus, terms: Terms, now: int) -> Transition | None:
    """Apply a cancellation: the job ends at once, or is flagged if it is running."""
    if status.state.is_terminal or status.cancel_requested:
        return None
    if status.state is State.RUNNING:
        flagged = status._replace(cancel_requested=True, last_event=status.last_event + 1)
        return Transition(flagged, _event(flagged, '"cancel_requested":true'))
    return _cancelled(status, terms, now)


def expired(status: JobStatus, terms: Terms, now: int) -> Transition | None:
    """Apply a deadline that passed while the job was not running."""
    if status.state not in (State.QUEUED, State.WAITING):
        return None
    if terms.deadline_at is None or terms.deadline_at > now:
        return None
    error = Failure("expired", "the job's deadline passed before it could run")
    return _end(status, terms, State.FAILED, Reason.EXPIRED, error, now)


def overran(status: JobStatus, terms: Terms, now: int) -> Transition | None:
    """Apply a deadline that passed `OVERRUN_MS` ago without a settlement by the worker."""
    if status.state is not State.RUNNING:
        return None
    if terms.deadline_at is None or terms.deadline_at + OVERRUN_MS > now:
        return None
    status = status._replace(fence=status.fence + 1)
    if status.cancel_requested:
        return _cancelled(status, terms, now)
    error = Failure("timeout", "the deadline passed, and the worker did not stop the job")
    return _end(status, terms, State.FAILED, Reason.TIMEOUT, error, now)


def _cancelled(status: JobStatus, terms: Terms, now: int) -> Transition:
    return _end(status, terms, State.CANCELLED, Reason.CANCELLED, status.error, now)


def _requeue(
    status: JobStatus, reason: Reason, run_at: int, now: int, error: Failure | None
) -> Transition:
    return _move(
        status,
        State.QUEUED,
        claimable=run_at <= now,
        phase=None,
        reason=reason,
        worker=None,
        run_at=run_at,
        error=error,
    )


def _wait(status: JobStatus, until: int) -> Transition:
    return _move(
        status,
        State.WAITING,
        claimable=False,
        phase=None,
        reason=Reason.WAITING,
        worker=None,
        run_at=until,
    )


def _end(
    status: JobStatus,
    terms: Terms,
    state: State,
    reason: Reason | None,
    error: Failure | None,
    now: int,
) -> Transition:
    kept = terms.keep_succeeded_ms if state is State.SUCCEEDED else terms.keep_failed_ms
    return _move(
        status,
        state,
        claimable=False,
        phase=None,
        reason=reason,
        worker=None,
        finished_at=now,
        expires_at=now + kept,
        error=error,
    )


def _move(status: JobStatus, state: State, **changes: object) -> Transition:
    check_move(status.state, state)
    moved = status._replace(state=state, last_event=status.last_event + 1, **changes)  # type: ignore[arg-type]  # named fields, checked by the tests of every transition
    return Transition(moved, _event(moved, f'"previous":"{status.state}"'))


def _event(status: JobStatus, member: str) -> str:
    # Formatted by hand for speed. Only the error's code is free text.
    data = f'"state":"{status.state}","attempt":{status.attempt},{member}'
    if status.reason is not None:
        data += f',"reason":"{status.reason}"'
    if status.state is State.FAILED and status.error is not None:
        data += f',"error":{{"code":{json.dumps(status.error.code)}}}'
    return f"{{{data}}}"
