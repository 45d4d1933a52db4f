"""The calls on what a job has done, and on how it goes on: steps, events, resume, fork."""

from __future__ import annotations

import logging
from typing import Annotated, Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.engine.engine import Engine
from coatcheck.engine.fork import Fork
from coatcheck.errors import NotFound
from coatcheck.http.auth.caller import quotas_of, tenant_of
from coatcheck.http.endpoint import JSON
from coatcheck.http.jobs.handlers import job_response, payload_response, read_traceparent
from coatcheck.http.jobs.views import dumps, steps_json
from coatcheck.http.request.body import read_json, read_optional_json
from coatcheck.http.request.idempotency import REPLAYED, read_idempotency_key, read_key
from coatcheck.http.request.models import RequestModel, validate_model
from coatcheck.http.workers.handlers import LARGEST_SEQ
from coatcheck.logs import correlation_id

log = logging.getLogger(__name__)


class ForkRequest(RequestModel):
    """Where a fork begins: the index of a step, from 0, or its name; and another input."""

    from_step: Annotated[int, Field(ge=0)] | str
    input: Any = None


async def get_steps(request: Request) -> Response:
    """Answer with what a job's handler has done so far, in order."""
    engine: Engine = request.app.state.engine
    steps = await engine.steps(request.path_params["job_id"], tenant_of(request))
    return Response(steps_json(steps), media_type=JSON)


async def get_step_result(request: Request) -> Response:
    """Answer with what a step came to alone."""
    engine: Engine = request.app.state.engine
    seq = request.path_params["seq"]
    if not seq.isascii() or not seq.isdecimal() or len(seq) > len(str(LARGEST_SEQ)):
        raise NotFound("there is no such step: a step's number is its `seq`")
    step = await engine.step(request.path_params["job_id"], int(seq), tenant_of(request))
    if step.result is None:
        raise NotFound(f"step {seq} has no result: it is {step.state}")
    return await payload_response(engine, request, step.result)


async def send_event(request: Request) -> Response:
    """Send an event to a job. It is kept until the job's handler waits for it; each is taken once,
    in the order in which they came.
    """
    engine: Engine = request.app.state.engine
    data = dumps(await read_optional_json(request))
    job_id, name = request.path_params["job_id"], request.path_params["name"]
    job = await engine.send(job_id, name, data, tenant_of(request), key=read_key(request))
    log.info("event sent", extra={"job_id": job.id, "kind": job.kind})
    return job_response(engine, job, 202)


async def resume_job(request: Request) -> Response:
    """Let a job that failed or was cancelled go on from its last checkpoint, with all its attempts.
    Any other stays as it is.
    """
    engine: Engine = request.app.state.engine
    job, changed = await engine.resume(request.path_params["job_id"], tenant_of(request))
    if changed:
        log.info("resumed", extra={"job_id": job.id, "kind": job.kind})
    return job_response(engine, job, 202 if changed else 200)


async def fork_job(request: Request) -> Response:
    """Make a new job of the same kind that begins with the checkpoints before a step of this one,
    and with its input unless another one is given.
    """
    engine: Engine = request.app.state.engine
    body = await read_json(request)
    asked = validate_model(body, ForkRequest)
    fork = Fork(
        source=request.path_params["job_id"],
        from_step=asked.from_step,
        input=dumps(asked.input) if "input" in asked.model_fields_set else None,
        correlation_id=correlation_id.get(),
        traceparent=read_traceparent(request),
        quotas=quotas_of(request),
    )
    job, replayed = await engine.fork(fork, read_idempotency_key(request, body), tenant_of(request))
    log.info("forked", extra={"job_id": job.id, "kind": job.kind, "replayed": replayed})
    headers = {"Location": f"/v1/jobs/{job.id}"}
    if replayed:
        headers[REPLAYED] = "true"
    return job_response(engine, job, 200 if job.state.is_terminal else 202, headers)
