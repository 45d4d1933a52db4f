"""What each thing that can happen to a job does to it: pure functions, shared by every store.

A store reads a job's `JobStatus` inside its transaction, asks one of these functions what the
standing becomes, and writes that together with the event, in the same transaction. So a rule
(when an attempt counts, what a lost worker means, who wins when cancel races complete) is written
once, here, and an illegal move cannot be expressed without raising.

Rules worth knowing:

- A claim raises the fence and adds an attempt, unless the job comes back from waiting: that is the
  attempt it had. A release takes the attempt back, not the fence.
- Losing the worker raises the fence too. So a job that is no longer running, but still has the
  fence of a lease, was settled by that lease: settling twice (a retry after an answer that never
  came) is recognised and changes nothing.
- A request to cancel a running job is only a flag. The worker that next settles the job decides:
  success stays success, a handler that gave up has failed, anything else ends it as cancelled.
- Whoever holds no fence (cancel, lost, expired, overran) may move a job only from the states named
  here; for any other the function returns None and nothing is written.
- A deadline is the worker's to keep while it runs the job. One that has not ended it `OVERRUN_MS`
  later, which is longer than it gives a handler to stop, loses it like a worker that is gone: what
  the job was given is dropped at its time, whatever became of who reads it.
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

# When a job goes on that waits for no particular time.
NEVER = 253_402_300_799_999
# How long after its deadline a running job is left to its worker.
OVERRUN_MS = 60_000


class JobStatus(NamedTuple):
    """The part of a job that transitions change."""

    state: State
    claimable: bool  # queued and due: inside the index that claims read
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
    """A job's next standing, and the data of the event that tells of it."""

    standing: JobStatus
    event: str


def created(run_at: int, now: int) -> Transition:
    """Return where a job begins: queued, and claimable unless it is for later."""
    standing = JobStatus(
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
    return Transition(standing, '{"state":"queued","attempt":0}')


def claimed(standing: JobStatus, worker: str, now: int) -> Transition:
    """A worker takes the job."""
    return _move(
        standing,
        State.RUNNING,
        claimable=False,
        reason=None,
        attempt=standing.attempt + (standing.reason is not Reason.WOKEN),
        fence=standing.fence + 1,
        worker=worker,
        started_at=now,
    )


def settled(standing: JobStatus, terms: Terms, outcome: Outcome, now: int) -> Transition:
    """The worker that holds the job says how its attempt ended. The store has checked the fence."""
    if standing.state is not State.RUNNING:
        raise IllegalTransition(f"a {standing.state} job has no attempt that could end")
    match outcome:
        case Succeeded():
            return _end(standing, terms, State.SUCCEEDED, None, None, now)
        case Cancelled():
            return _cancelled(standing, terms, now)
        case GaveUp(error, reason):
            return _end(standing, terms, State.FAILED, reason, error, now)
        case Errored() | Released() | Waiting() if standing.cancel_requested:
            return _cancelled(standing, terms, now)
        case Errored(error, delay, reason):
            too_late = terms.deadline_at is not None and now + delay >= terms.deadline_at
            if standing.attempt >= terms.max_attempts or too_late:
                return _end(standing, terms, State.FAILED, reason, error, now)
            return _requeue(standing, Reason.RETRY, now + delay, now, error)
        case Released(delay, error):
            given_back = standing._replace(attempt=standing.attempt - 1)
            return _requeue(given_back, Reason.RELEASED, now + delay, now, error or standing.error)
        case Waiting(until):
            return _wait(standing, NEVER if until is None else until)


def woken(standing: JobStatus, terms: Terms, now: int) -> Transition | None:  # noqa: ARG001 - a rule
    """What the job waited for is there."""
    if standing.state is not State.WAITING:
        return None
    return _requeue(standing, Reason.WOKEN, now, now, standing.error)


def resumed(standing: JobStatus, terms: Terms, now: int) -> Transition | None:  # noqa: ARG001 - a rule
    """Somebody wants a job that failed or was cancelled to go on, with all its attempts."""
    if standing.state not in (State.FAILED, State.CANCELLED):
        return None
    fresh = standing._replace(attempt=0, finished_at=None, expires_at=None, cancel_requested=False)
    return _requeue(fresh, Reason.RESUMED, now, now, None)


def lost(standing: JobStatus, terms: Terms, now: int) -> Transition | None:
    """The worker that held the job is gone."""
    if standing.state is not State.RUNNING:
        return None
    standing = standing._replace(fence=standing.fence + 1)
    if standing.cancel_requested:
        return _cancelled(standing, terms, now)
    if terms.on_lost == "fail" or standing.attempt >= terms.max_attempts:
        tried = f"attempt {standing.attempt} of {terms.max_attempts}"
        error = Failure("lost", f"the worker that ran the job disappeared ({tried})")
        return _end(standing, terms, State.FAILED, Reason.LOST, error, now)
    return _requeue(standing, Reason.LOST, now, now, standing.error)


def cancel_asked(standing: JobStatus, terms: Terms, now: int) -> Transition | None:
    """Somebody wants the job cancelled: at once where nobody runs it, else the worker is told."""
    if standing.state.is_terminal or standing.cancel_requested:
        return None
    if standing.state is State.RUNNING:
        asked = standing._replace(cancel_requested=True, last_event=standing.last_event + 1)
        return Transition(asked, _event(asked, '"cancel_requested":true'))
    return _cancelled(standing, terms, now)


def expired(standing: JobStatus, terms: Terms, now: int) -> Transition | None:
    """The deadline has passed while nobody ran the job."""
    if standing.state not in (State.QUEUED, State.WAITING):
        return None
    if terms.deadline_at is None or terms.deadline_at > now:
        return None
    error = Failure("expired", "the job's deadline passed before it could run")
    return _end(standing, terms, State.FAILED, Reason.EXPIRED, error, now)


def overran(standing: JobStatus, terms: Terms, now: int) -> Transition | None:
    """The deadline passed long ago, and the worker that runs the job has not ended it."""
    if standing.state is not State.RUNNING:
        return None
    if terms.deadline_at is None or terms.deadline_at + OVERRUN_MS > now:
        return None
    standing = standing._replace(fence=standing.fence + 1)
    if standing.cancel_requested:
        return _cancelled(standing, terms, now)
    error = Failure("timeout", "the job's deadline passed, and its worker did not end it")
    return _end(standing, terms, State.FAILED, Reason.TIMEOUT, error, now)


def _cancelled(standing: JobStatus, terms: Terms, now: int) -> Transition:
    return _end(standing, terms, State.CANCELLED, Reason.CANCELLED, standing.error, now)


def _requeue(
    standing: JobStatus, reason: Reason, run_at: int, now: int, error: Failure | None
) -> Transition:
    return _move(
        standing,
        State.QUEUED,
        claimable=run_at <= now,
        phase=None,
        reason=reason,
        worker=None,
        run_at=run_at,
        error=error,
    )


def _wait(standing: JobStatus, until: int) -> Transition:
    return _move(
        standing,
        State.WAITING,
        claimable=False,
        phase=None,
        reason=Reason.WAITING,
        worker=None,
        run_at=until,
    )


def _end(
    standing: JobStatus,
    terms: Terms,
    state: State,
    reason: Reason | None,
    error: Failure | None,
    now: int,
) -> Transition:
    kept = terms.keep_succeeded_ms if state is State.SUCCEEDED else terms.keep_failed_ms
    return _move(
        standing,
        state,
        claimable=False,
        phase=None,
        reason=reason,
        worker=None,
        finished_at=now,
        expires_at=now + kept,
        error=error,
    )


def _move(standing: JobStatus, state: State, **changes: object) -> Transition:
    check_move(standing.state, state)
    moved = standing._replace(state=state, last_event=standing.last_event + 1, **changes)  # type: ignore[arg-type]  # named fields, checked by the tests of every transition
    return Transition(moved, _event(moved, f'"previous":"{standing.state}"'))


def _event(standing: JobStatus, what: str) -> str:
    # Written by hand: two of these are made for every job, and only the error's code is free text.
    data = f'"state":"{standing.state}","attempt":{standing.attempt},{what}'
    if standing.reason is not None:
        data += f',"reason":"{standing.reason}"'
    if standing.state is State.FAILED and standing.error is not None:
        data += f',"error":{{"code":{json.dumps(standing.error.code)}}}'
    return f"{{{data}}}"
