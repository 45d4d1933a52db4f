"""The calls of workers in any language: claim jobs, keep the lease, say how it went."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.clock import to_rfc3339
from coatcheck.engine.confirmation import ensure_confirmed
from coatcheck.engine.engine import Engine
from coatcheck.engine.remote_workers import is_held_by
from coatcheck.errors import CoatcheckError, InvalidPayload, NotFound, StaleLease
from coatcheck.http.auth.caller import caller_of, check_kind, tenant_of
from coatcheck.http.endpoint import JSON
from coatcheck.http.jobs.views import dumps, job_json
from coatcheck.http.request.models import RequestModel, parse_time, read_model
from coatcheck.http.request.prefer import MAX_WAIT_S
from coatcheck.http.request.query import whole_number
from coatcheck.model.access import Scope
from coatcheck.model.event import EventType, NewJobEvent
from coatcheck.model.job import Claim, Failure, Lease, Progress
from coatcheck.model.outcome import GaveUp, Released, Succeeded
from coatcheck.model.state import State
from coatcheck.model.step import Op, Step, StepId, StepState
from coatcheck.store.base import Report

MOST_CLAIMED = 100
LARGEST_FENCE = 2**63 - 1
LARGEST_SEQ = 2**31 - 1
MOST_STEPS = 100
_SHOWS_JOB = "coatcheck.shows_job"  # whether a lease call may answer with the job itself


class ClaimRequest(RequestModel):
    """Which kinds a worker can run, how many jobs it wants, how long it waits for the first."""

    kinds: Annotated[list[str], Field(min_length=1, max_length=100)]
    max: Annotated[int, Field(ge=1, le=MOST_CLAIMED)] = 1
    wait: Annotated[float, Field(ge=0, le=MAX_WAIT_S)] = 0


class ProgressRequest(RequestModel):
    """How far the job has come, in which phase, and a line for its log."""

    done: Annotated[float, Field(allow_inf_nan=False)] | None = None
    total: Annotated[float, Field(allow_inf_nan=False)] | None = None
    message: str | None = None
    phase: str | None = None
    log: str | None = None


class CompleteRequest(RequestModel):
    """What the job has come to."""

    result: Any = None


class FailRequest(RequestModel):
    """Why the attempt failed, and whether another one may help."""

    code: Annotated[str, Field(min_length=1, max_length=100)]
    message: Annotated[str, Field(max_length=2000)] = ""
    retryable: bool = True
    retry_after_s: Annotated[float, Field(ge=0, le=365 * 86_400)] | None = None


class StepError(RequestModel):
    """Why a step failed."""

    code: Annotated[str, Field(min_length=1, max_length=100)]
    message: Annotated[str, Field(max_length=2000)] = ""
    detail: str | None = None


class StepRequest(RequestModel):
    """A step that the job has taken: the so-many-th of the job, what it is called, how it ended."""

    seq: Annotated[int, Field(ge=0, le=LARGEST_SEQ)]
    name: Annotated[str, Field(min_length=1, max_length=200)]
    key: Annotated[str, Field(max_length=255)] | None = None
    occurrence: Annotated[int, Field(ge=0, le=LARGEST_SEQ)] = 0
    state: Literal["succeeded", "failed"] = "succeeded"
    attempts: Annotated[int, Field(ge=1, le=LARGEST_SEQ)] = 1
    started_at: Annotated[int | None, BeforeValidator(parse_time)] = None
    result: Any = None
    error: StepError | None = None


class StepsRequest(RequestModel):
    """Steps to be written, all or none."""

    steps: Annotated[list[StepRequest], Field(min_length=1, max_length=MOST_STEPS)]


async def claim_jobs(request: Request) -> Response:
    """Take jobs to run. Whoever takes them keeps them by a heartbeat before each lease is over."""
    engine: Engine = request.app.state.engine
    asked = await read_model(request, ClaimRequest)
    for kind in asked.kinds:
        check_kind(request, Scope.WORK, kind)
    host = request.client.host if request.client else "somewhere"
    remote = engine.remote_workers
    claims = await remote.claim(
        *(asked.kinds, asked.max, asked.wait, host, request.is_disconnected),
        key_id=caller_of(request).key_id,
    )
    try:
        await ensure_confirmed()
    except CoatcheckError:
        await remote.release(claims)
        raise
    listed = ",".join(_claim_json(claim, tenant_of(request)) for claim in claims)
    return Response(f'{{"lease_s":{remote.lease_s:g},"claims":[{listed}]}}', media_type=JSON)


async def beat(request: Request) -> Response:
    """Keep a lease; the answer tells whether somebody wants the job cancelled."""
    engine: Engine = request.app.state.engine
    answer = await engine.remote_workers.heartbeat(await _held_lease(request))
    said = {"lease_s": engine.remote_workers.lease_s, "cancel_requested": answer.cancel_requested}
    return Response(dumps(said), media_type=JSON)


async def report_progress(request: Request) -> Response:
    """Say how far a job has come."""
    engine: Engine = request.app.state.engine
    asked = await read_model(request, ProgressRequest)
    lease = await _held_lease(request)
    progress = None
    if asked.done is not None:
        progress = Progress(asked.done, asked.total, asked.message)
    elif asked.total is not None or asked.message is not None:
        raise InvalidPayload("progress needs `done`", [("/done", "tell it beside the others")])
    entry = json.dumps({"message": asked.log}, ensure_ascii=False)
    events = () if asked.log is None else (NewJobEvent(EventType.LOG, entry),)
    await engine.remote_workers.report(lease, Report(progress, asked.phase, events))
    return await _answer(engine, request)


async def record_steps(request: Request) -> Response:
    """Write what a job has done once and for all. Who takes the job over reads it with
    `GET /v1/jobs/{job_id}/steps`, and goes on after it. The same step written again replaces what
    was there.
    """
    engine: Engine = request.app.state.engine
    asked = await read_model(request, StepsRequest)
    now = engine.clock.now()
    steps = [_step(number, step, now) for number, step in enumerate(asked.steps)]
    await engine.remote_workers.record_steps(await _held_lease(request), steps)
    return await _answer(engine, request)


def _step(number: int, asked: StepRequest, now: int) -> Step:
    place = f"/steps/{number}"
    failed = asked.state == "failed"
    if failed != (asked.error is not None):
        why = "a step that failed has one, and no other"
        raise InvalidPayload(f"{place}/error: {why}", [(f"{place}/error", why)])
    if asked.key is not None and asked.occurrence:
        why = "a step with a key is known by that; leave this out"
        raise InvalidPayload(f"{place}/occurrence: {why}", [(f"{place}/occurrence", why)])
    return Step(
        seq=asked.seq,
        id=StepId(Op.STEP, asked.name, asked.key, asked.occurrence),
        state=StepState(asked.state),
        started_at=now if asked.started_at is None else asked.started_at,
        finished_at=now,
        attempts=asked.attempts,
        result=None if failed else dumps(asked.result),
        error=None if asked.error is None else Failure(**asked.error.model_dump()),
    )


async def complete(request: Request) -> Response:
    """End a job well."""
    engine: Engine = request.app.state.engine
    asked = await read_model(request, CompleteRequest)
    lease = await _held_lease(request)
    job = await engine.get(request.path_params["job_id"], tenant_of(request))
    result = dumps(asked.result)
    engine.kinds[job.kind].check_result(result)
    await engine.remote_workers.settle(lease, Succeeded(result))
    return await _answer(engine, request)


async def fail(request: Request) -> Response:
    """End an attempt badly: it is made again, by the kind's backoff, unless that would not help."""
    engine: Engine = request.app.state.engine
    asked = await read_model(request, FailRequest)
    error = Failure(asked.code, asked.message, retryable=asked.retryable)
    lease = await _held_lease(request)
    if asked.retryable:
        await engine.remote_workers.fail(lease, error, asked.retry_after_s)
    else:
        await engine.remote_workers.settle(lease, GaveUp(error))
    return await _answer(engine, request)


async def release(request: Request) -> Response:
    """Give a job back; its attempt does not count."""
    engine: Engine = request.app.state.engine
    await engine.remote_workers.settle(await _held_lease(request), Released())
    return await _answer(engine, request)


def _lease(request: Request) -> Lease:
    fence = request.path_params["fence"]
    number = whole_number(fence)
    if number is None or not 0 < number <= LARGEST_FENCE:
        raise NotFound("there is no such lease: a fence is the number that the claim gave")
    return Lease(tenant_of(request), request.path_params["job_id"], number)


async def _held_lease(request: Request) -> Lease:
    """Return the lease that the path names; raises StaleLease if the job runs under a lease of
    another key. A job that has ended has no holder: whether its end is being reported a second time
    is for the fence to say, and the answer shows nothing of the job (`_answer`).
    """
    lease, caller = _lease(request), caller_of(request)
    if caller.key_id is not None and not caller.is_operator:
        engine: Engine = request.app.state.engine
        job = await engine.get_without_result(lease.job_id, lease.tenant)
        is_held = is_held_by(job, caller.key_id)
        if job.state is State.RUNNING and not is_held:
            raise StaleLease(f"job {lease.job_id} is not yours: another worker has claimed it")
        request.scope[_SHOWS_JOB] = is_held
    return lease


async def _answer(engine: Engine, request: Request) -> Response:
    job = await engine.get(request.path_params["job_id"], tenant_of(request))
    if not request.scope.get(_SHOWS_JOB, True):
        job = replace(job, progress=None, error=None, result=None, labels={}, artifacts=())
    return Response(job_json(job), media_type=JSON)


def _claim_json(claim: Claim, mine: str) -> str:
    path = f"/v1/jobs/{claim.lease.job_id}/leases/{claim.lease.fence}"
    # What to follow as it is: a worker runs jobs of every tenant.
    whose = "" if claim.lease.tenant == mine else f"?tenant={claim.lease.tenant}"
    deadline = claim.terms.deadline_at
    head = {
        "job_id": claim.lease.job_id,
        "fence": claim.lease.fence,
        "tenant": claim.lease.tenant,
        "kind": claim.kind,
        "queue": claim.queue,
        "attempt": claim.attempt,
        "max_attempts": claim.terms.max_attempts,
        "timeout_s": claim.terms.timeout_ms / 1000,
        "deadline_at": None if deadline is None else to_rfc3339(deadline),
        "correlation_id": claim.correlation_id,
        "traceparent": claim.traceparent,
        "links": {name: f"{path}/{name}{whose}" for name in LEASE_ACTIONS},
    }
    return f'{dumps(head)[:-1]},"input":{claim.input}}}'


LEASE_ACTIONS: tuple[
    Literal["heartbeat", "steps", "progress", "complete", "fail", "release"], ...
] = (
    "heartbeat",
    "steps",
    "progress",
    "complete",
    "fail",
    "release",
)
