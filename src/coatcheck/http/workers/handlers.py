"""The handlers for workers in any language: claim, heartbeat, report and settle."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.clock import to_rfc3339
from coatcheck.documents.workers import ClaimHead, HeartbeatDocument
from coatcheck.engine.confirmation import ensure_confirmed
from coatcheck.engine.engine import Engine
from coatcheck.engine.remote_workers import is_held_by
from coatcheck.errors import CoatcheckError, InvalidPayload, NotFound, StaleLease
from coatcheck.http.auth.caller import caller_of, check_kind, tenant_of
from coatcheck.http.endpoint import JSON
from coatcheck.http.jobs.views import dumps, job_json
from coatcheck.http.request.models import OptionalTime, RequestModel, read_model
from coatcheck.http.request.prefer import MAX_WAIT_S
from coatcheck.http.request.query import whole_number
from coatcheck.model.access import Scope
from coatcheck.model.event import EventType, NewJobEvent
from coatcheck.model.job import Claim, Failure, Lease, Progress
from coatcheck.model.outcome import GaveUp, Released, Succeeded
from coatcheck.model.state import State
from coatcheck.model.step import Op, Step, StepId, StepState
from coatcheck.store.base import Report

MAX_CLAIMED = 100
MAX_FENCE = 2**63 - 1
MAX_SEQ = 2**31 - 1
MAX_STEPS = 100
_SHOWS_JOB = "coatcheck.shows_job"  # scope key: whether the response may show the job


class ClaimRequest(RequestModel):
    """The kinds that a worker runs, the most jobs to claim, and how long to wait for the first."""

    kinds: Annotated[list[str], Field(min_length=1, max_length=100)]
    max: Annotated[int, Field(ge=1, le=MAX_CLAIMED)] = 1
    wait: Annotated[float, Field(ge=0, le=MAX_WAIT_S)] = 0


class ProgressRequest(RequestModel):
    """The progress of a job, its phase, and a line for its event log."""

    done: Annotated[float, Field(allow_inf_nan=False)] | None = None
    total: Annotated[float, Field(allow_inf_nan=False)] | None = None
    message: str | None = None
    phase: str | None = None
    log: str | None = None


class CompleteRequest(RequestModel):
    """The result of a job."""

    result: Any = None


class FailRequest(RequestModel):
    """The reason why an attempt failed, and whether to retry."""

    code: Annotated[str, Field(min_length=1, max_length=100)]
    message: Annotated[str, Field(max_length=2000)] = ""
    retryable: bool = True
    retry_after_s: Annotated[float, Field(ge=0, le=365 * 86_400)] | None = None


class StepError(RequestModel):
    """The reason why a step failed."""

    code: Annotated[str, Field(min_length=1, max_length=100)]
    message: Annotated[str, Field(max_length=2000)] = ""
    detail: str | None = None


class StepRequest(RequestModel):
    """A step of the job: its number, name, key and outcome."""

    seq: Annotated[int, Field(ge=0, le=MAX_SEQ)]
    name: Annotated[str, Field(min_length=1, max_length=200)]
    key: Annotated[str, Field(max_length=255)] | None = None
    occurrence: Annotated[int, Field(ge=0, le=MAX_SEQ)] = 0
    state: Literal["succeeded", "failed"] = "succeeded"
    attempts: Annotated[int, Field(ge=1, le=MAX_SEQ)] = 1
    started_at: OptionalTime = None
    result: Any = None
    error: StepError | None = None


class StepsRequest(RequestModel):
    """Steps to record, all or none."""

    steps: Annotated[list[StepRequest], Field(min_length=1, max_length=MAX_STEPS)]


async def claim_jobs(request: Request) -> Response:
    """Claim jobs to run. Renew each lease by a heartbeat before it expires."""
    engine: Engine = request.app.state.engine
    wanted = await read_model(request, ClaimRequest)
    for kind in wanted.kinds:
        check_kind(request, Scope.WORK, kind)
    host = request.client.host if request.client else "somewhere"
    remote = engine.remote_workers
    claims = await remote.claim(
        *(wanted.kinds, wanted.max, wanted.wait, host, request.is_disconnected),
        key_id=caller_of(request).key_id,
    )
    try:
        await ensure_confirmed()
    except CoatcheckError:
        await remote.release(claims)
        raise
    claimed = ",".join(_claim_json(claim, tenant_of(request)) for claim in claims)
    return Response(f'{{"lease_s":{remote.lease_s:g},"claims":[{claimed}]}}', media_type=JSON)


async def heartbeat(request: Request) -> Response:
    """Renew a lease. The response tells whether cancellation was requested."""
    engine: Engine = request.app.state.engine
    remote = engine.remote_workers
    renewed = await remote.heartbeat(await _held_lease(request))
    document: HeartbeatDocument = {
        "lease_s": remote.lease_s,
        "cancel_requested": renewed.cancel_requested,
    }
    return Response(dumps(document), media_type=JSON)


async def report_progress(request: Request) -> Response:
    """Report the progress of a job."""
    engine: Engine = request.app.state.engine
    wanted = await read_model(request, ProgressRequest)
    lease = await _held_lease(request)
    progress = None
    if wanted.done is not None:
        progress = Progress(wanted.done, wanted.total, wanted.message)
    elif wanted.total is not None or wanted.message is not None:
        raise InvalidPayload(
            "progress needs `done`", [("/done", "is required with total or message")]
        )
    entry = json.dumps({"message": wanted.log}, ensure_ascii=False)
    events = () if wanted.log is None else (NewJobEvent(EventType.LOG, entry),)
    await engine.remote_workers.report(lease, Report(progress, wanted.phase, events))
    return await _response(engine, request)


async def record_steps(request: Request) -> Response:
    """Record steps of a job. The next worker of the job reads them with
    `GET /v1/jobs/{job_id}/steps` and continues after them. Recording a step again replaces it.
    """
    engine: Engine = request.app.state.engine
    wanted = await read_model(request, StepsRequest)
    now = engine.clock.now()
    steps = [_step(number, step, now) for number, step in enumerate(wanted.steps)]
    await engine.remote_workers.record_steps(await _held_lease(request), steps)
    return await _response(engine, request)


def _step(number: int, wanted: StepRequest, now: int) -> Step:
    pointer = f"/steps/{number}"
    failed = wanted.state == "failed"
    if failed != (wanted.error is not None):
        why = "is required for a failed step, and only for that"
        raise InvalidPayload(f"{pointer}/error: {why}", [(f"{pointer}/error", why)])
    if wanted.key is not None and wanted.occurrence:
        why = "must be omitted for a step with a key"
        raise InvalidPayload(f"{pointer}/occurrence: {why}", [(f"{pointer}/occurrence", why)])
    return Step(
        seq=wanted.seq,
        id=StepId(Op.STEP, wanted.name, wanted.key, wanted.occurrence),
        state=StepState(wanted.state),
        started_at=now if wanted.started_at is None else wanted.started_at,
        finished_at=now,
        attempts=wanted.attempts,
        result=None if failed else dumps(wanted.result),
        error=None if wanted.error is None else Failure(**wanted.error.model_dump()),
    )


async def complete(request: Request) -> Response:
    """Settle a job as succeeded."""
    engine: Engine = request.app.state.engine
    wanted = await read_model(request, CompleteRequest)
    lease = await _held_lease(request)
    job = await engine.get(request.path_params["job_id"], tenant_of(request))
    result = dumps(wanted.result)
    engine.kinds[job.kind].check_result(result)
    await engine.remote_workers.settle(lease, Succeeded(result))
    return await _response(engine, request)


async def fail(request: Request) -> Response:
    """Settle an attempt as failed. The job is retried by its kind's backoff if `retryable`."""
    engine: Engine = request.app.state.engine
    wanted = await read_model(request, FailRequest)
    error = Failure(wanted.code, wanted.message, retryable=wanted.retryable)
    lease = await _held_lease(request)
    if wanted.retryable:
        await engine.remote_workers.fail(lease, error, wanted.retry_after_s)
    else:
        await engine.remote_workers.settle(lease, GaveUp(error))
    return await _response(engine, request)


async def release(request: Request) -> Response:
    """Release a job without counting the attempt."""
    engine: Engine = request.app.state.engine
    await engine.remote_workers.settle(await _held_lease(request), Released())
    return await _response(engine, request)


def _lease(request: Request) -> Lease:
    fence = request.path_params["fence"]
    number = whole_number(fence)
    if number is None or not 0 < number <= MAX_FENCE:
        raise NotFound("there is no such lease: use the fence that the claim returned")
    return Lease(tenant_of(request), request.path_params["job_id"], number)


async def _held_lease(request: Request) -> Lease:
    """Return the lease that the path names.

    Raise StaleLease if the job runs under another key's lease. A finished job has no lease holder.
    The fence decides whether this is a repeated settle, and the response shows nothing of the job
    (`_response`).
    """
    lease, caller = _lease(request), caller_of(request)
    if caller.key_id is not None and not caller.is_operator:
        engine: Engine = request.app.state.engine
        job = await engine.get_without_result(lease.job_id, lease.tenant)
        is_held = is_held_by(job, caller.key_id)
        if job.state is State.RUNNING and not is_held:
            raise StaleLease(f"lease lost: another worker has claimed job {lease.job_id}")
        request.scope[_SHOWS_JOB] = is_held
    return lease


async def _response(engine: Engine, request: Request) -> Response:
    job = await engine.get(request.path_params["job_id"], tenant_of(request))
    if not request.scope.get(_SHOWS_JOB, True):
        job = replace(job, progress=None, error=None, result=None, labels={}, artifacts=())
    return Response(job_json(job), media_type=JSON)


def _claim_json(claim: Claim, own_tenant: str) -> str:
    path = f"/v1/jobs/{claim.lease.job_id}/leases/{claim.lease.fence}"
    # Complete links: a worker runs jobs of every tenant.
    query = "" if claim.lease.tenant == own_tenant else f"?tenant={claim.lease.tenant}"
    deadline = claim.terms.deadline_at
    head: ClaimHead = {
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
        "links": {name: f"{path}/{name}{query}" for name in LEASE_ACTIONS},
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
