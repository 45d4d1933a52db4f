"""The calls of workers in any language: claim jobs, keep the lease, say how it went."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.clock import to_rfc3339
from coatcheck.engine.engine import Engine
from coatcheck.errors import InvalidPayload, NotFound
from coatcheck.http.body import read_model
from coatcheck.http.endpoint import JSON
from coatcheck.http.job_view import dumps, job_json
from coatcheck.http.prefer import LONGEST_WAIT_S
from coatcheck.model.event import EventType, NewEvent
from coatcheck.model.job import DEFAULT_TENANT, Claim, Failure, Lease, Progress
from coatcheck.model.outcome import GaveUp, Released, Succeeded
from coatcheck.store.base import Report

MOST_CLAIMED = 100
LARGEST_FENCE = 2**63 - 1


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ClaimRequest(_Body):
    """Which kinds a worker can run, how many jobs it wants, how long it waits for the first."""

    kinds: Annotated[list[str], Field(min_length=1, max_length=100)]
    max: Annotated[int, Field(ge=1, le=MOST_CLAIMED)] = 1
    wait: Annotated[float, Field(ge=0, le=LONGEST_WAIT_S)] = 0


class ProgressRequest(_Body):
    """How far the job has come, in which phase, and a line for its log."""

    done: Annotated[float, Field(allow_inf_nan=False)] | None = None
    total: Annotated[float, Field(allow_inf_nan=False)] | None = None
    message: str | None = None
    phase: str | None = None
    log: str | None = None


class CompleteRequest(_Body):
    """What the job has come to."""

    result: Any = None


class FailRequest(_Body):
    """Why the attempt failed, and whether another one may help."""

    code: Annotated[str, Field(min_length=1, max_length=100)]
    message: Annotated[str, Field(max_length=2000)] = ""
    retryable: bool = True
    retry_after_s: Annotated[float, Field(ge=0, le=365 * 86_400)] | None = None


async def claim_jobs(request: Request) -> Response:
    """Take jobs to run. Whoever takes them keeps them by a heartbeat before each lease is over."""
    engine: Engine = request.app.state.engine
    asked = await read_model(request, ClaimRequest)
    host = request.client.host if request.client else "somewhere"
    remote = engine.remote
    claims = await remote.claim(asked.kinds, asked.max, asked.wait, host, request.is_disconnected)
    listed = ",".join(_claim_json(claim) for claim in claims)
    return Response(f'{{"lease_s":{remote.lease_s:g},"claims":[{listed}]}}', media_type=JSON)


async def beat(request: Request) -> Response:
    """Keep a lease; the answer tells whether somebody wants the job cancelled."""
    engine: Engine = request.app.state.engine
    answer = await engine.remote.beat(_lease(request))
    said = {"lease_s": engine.remote.lease_s, "cancel_requested": answer.cancel_requested}
    return Response(dumps(said), media_type=JSON)


async def report_progress(request: Request) -> Response:
    """Say how far a job has come."""
    engine: Engine = request.app.state.engine
    asked = await read_model(request, ProgressRequest)
    progress = None
    if asked.done is not None:
        progress = Progress(asked.done, asked.total, asked.message)
    elif asked.total is not None or asked.message is not None:
        raise InvalidPayload("progress needs `done`", [("/done", "tell it beside the others")])
    entry = json.dumps({"message": asked.log}, ensure_ascii=False)
    events = () if asked.log is None else (NewEvent(EventType.LOG, entry),)
    await engine.remote.report(_lease(request), Report(progress, asked.phase, events))
    return await _answer(engine, request)


async def complete(request: Request) -> Response:
    """End a job well."""
    engine: Engine = request.app.state.engine
    asked = await read_model(request, CompleteRequest)
    job = await engine.get(request.path_params["job_id"])
    result = dumps(asked.result)
    engine.kinds[job.kind].check_result(result)
    await engine.remote.settle(_lease(request), Succeeded(result))
    return await _answer(engine, request)


async def fail(request: Request) -> Response:
    """End an attempt badly: it is made again, by the kind's backoff, unless that would not help."""
    engine: Engine = request.app.state.engine
    asked = await read_model(request, FailRequest)
    error = Failure(asked.code, asked.message, retryable=asked.retryable)
    if asked.retryable:
        await engine.remote.failed(_lease(request), error, asked.retry_after_s)
    else:
        await engine.remote.settle(_lease(request), GaveUp(error))
    return await _answer(engine, request)


async def release(request: Request) -> Response:
    """Give a job back; its attempt does not count."""
    engine: Engine = request.app.state.engine
    await engine.remote.settle(_lease(request), Released())
    return await _answer(engine, request)


def _lease(request: Request) -> Lease:
    fence = request.path_params["fence"]
    if not fence.isascii() or not fence.isdecimal() or not 0 < int(fence) <= LARGEST_FENCE:
        raise NotFound("there is no such lease: a fence is the number that the claim gave")
    return Lease(DEFAULT_TENANT, request.path_params["job_id"], int(fence))


async def _answer(engine: Engine, request: Request) -> Response:
    return Response(job_json(await engine.get(request.path_params["job_id"])), media_type=JSON)


def _claim_json(claim: Claim) -> str:
    path = f"/v1/jobs/{claim.lease.job_id}/leases/{claim.lease.fence}"
    deadline = claim.terms.deadline_at
    head = {
        "job_id": claim.lease.job_id,
        "fence": claim.lease.fence,
        "kind": claim.kind,
        "queue": claim.queue,
        "attempt": claim.attempt,
        "max_attempts": claim.terms.max_attempts,
        "timeout_s": claim.terms.timeout_ms / 1000,
        "deadline_at": None if deadline is None else to_rfc3339(deadline),
        "correlation_id": claim.correlation_id,
        "traceparent": claim.traceparent,
        "links": {name: f"{path}/{name}" for name in LEASE_CALLS},
    }
    return f'{dumps(head)[:-1]},"input":{claim.input}}}'


LEASE_CALLS: tuple[Literal["heartbeat", "progress", "complete", "fail", "release"], ...] = (
    "heartbeat",
    "progress",
    "complete",
    "fail",
    "release",
)
