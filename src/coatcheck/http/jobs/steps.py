"""Steps of a job, events sent to it, resume and fork."""

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
from coatcheck.http.endpoint import (
    IDEMPOTENCY_KEY,
    JSON,
    TRACEPARENT,
    Endpoint,
    EndpointBody,
    EndpointResponse,
    KindRule,
    as_json,
    ref,
)
from coatcheck.http.jobs.handlers import job_response, payload_response, read_traceparent
from coatcheck.http.jobs.views import dumps, steps_json
from coatcheck.http.request.body import read_json, read_optional_json
from coatcheck.http.request.idempotency import REPLAYED, read_idempotency_key, read_key
from coatcheck.http.request.models import RequestModel, validate_model
from coatcheck.http.workers.handlers import MAX_SEQ
from coatcheck.logs import correlation_id

log = logging.getLogger(__name__)

_JOB = as_json(ref("Job"))


class ForkRequest(RequestModel):
    """The first step that the fork runs itself, by index from 0 or by name, and another input."""

    from_step: Annotated[int, Field(ge=0)] | str
    input: Any = None


async def get_steps(request: Request) -> Response:
    """Return the recorded steps of a job, in order."""
    engine: Engine = request.app.state.engine
    steps = await engine.steps(request.path_params["job_id"], tenant_of(request))
    return Response(steps_json(steps), media_type=JSON)


async def get_step_result(request: Request) -> Response:
    """Return the result of a step."""
    engine: Engine = request.app.state.engine
    seq = request.path_params["seq"]
    if not seq.isascii() or not seq.isdecimal() or len(seq) > len(str(MAX_SEQ)):
        raise NotFound("there is no such step: name a step by its `seq`")
    step = await engine.step(request.path_params["job_id"], int(seq), tenant_of(request))
    if step.result is None:
        raise NotFound(f"step {seq} has no result: it is {step.state}")
    return await payload_response(engine, request, step.result)


async def send_event(request: Request) -> Response:
    """Send an event to a job. The event is stored until the job's handler waits for it. Events are
    consumed once each, in the order of their arrival.
    """
    engine: Engine = request.app.state.engine
    data = dumps(await read_optional_json(request))
    job_id, name = request.path_params["job_id"], request.path_params["name"]
    job = await engine.send(job_id, name, data, tenant_of(request), key=read_key(request))
    log.info("event sent", extra={"job_id": job.id, "kind": job.kind})
    return job_response(engine, job, 202)


async def resume_job(request: Request) -> Response:
    """Resume a failed or cancelled job from its last checkpoint, with all its attempts. Any other
    job stays unchanged.
    """
    engine: Engine = request.app.state.engine
    job, changed = await engine.resume(request.path_params["job_id"], tenant_of(request))
    if changed:
        log.info("job resumed", extra={"job_id": job.id, "kind": job.kind})
    return job_response(engine, job, 202 if changed else 200)


async def fork_job(request: Request) -> Response:
    """Submit a new job of the same kind that starts with a copy of the checkpoints before a step.
    It has the same input unless the request gives another.
    """
    engine: Engine = request.app.state.engine
    body = await read_json(request)
    wanted = validate_model(body, ForkRequest)
    fork = Fork(
        source=request.path_params["job_id"],
        from_step=wanted.from_step,
        input=dumps(wanted.input) if "input" in wanted.model_fields_set else None,
        correlation_id=correlation_id.get(),
        traceparent=read_traceparent(request),
        quotas=quotas_of(request),
    )
    key = read_idempotency_key(request, body)
    job, replayed = await engine.fork(fork, key, tenant_of(request))
    log.info("job forked", extra={"job_id": job.id, "kind": job.kind, "replayed": replayed})
    headers = {"Location": f"/v1/jobs/{job.id}"}
    if replayed:
        headers[REPLAYED] = "true"
    return job_response(engine, job, 200 if job.state.is_terminal else 202, headers)


STEPS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        "/v1/jobs/{job_id}/steps",
        get_steps,
        "getSteps",
        "List the steps of a job",
        "steering",
        {200: EndpointResponse("The steps, in order.", as_json(ref("StepPage")))},
        error_statuses=(404, 410),
        kind=KindRule.JOB,
        for_lease_holder=True,
    ),
    Endpoint(
        "GET",
        "/v1/jobs/{job_id}/steps/{seq}/result",
        get_step_result,
        "getStepResult",
        "Get the result of a step",
        "steering",
        {200: EndpointResponse("The result, as JSON.", as_json({}))},
        error_statuses=(404, 410),
        kind=KindRule.JOB,
        for_lease_holder=True,
    ),
    Endpoint(
        "POST",
        "/v1/jobs/{job_id}/events/{name}",
        send_event,
        "sendEvent",
        "Send an event to a job",
        "steering",
        {202: EndpointResponse("The event is stored for the job.", _JOB, ("Retry-After",))},
        error_statuses=(404, 408, 409, 410, 413, 415, 422),
        parameters=(IDEMPOTENCY_KEY,),
        body=EndpointBody("The data of the event; null if omitted.", as_json({}), required=False),
        kind=KindRule.JOB,
    ),
    Endpoint(
        "POST",
        "/v1/jobs/{job_id}/resume",
        resume_job,
        "resumeJob",
        "Resume a failed or cancelled job",
        "steering",
        {
            200: EndpointResponse("The job succeeded or is not finished: unchanged.", _JOB),
            202: EndpointResponse("The job is queued again.", _JOB, ("Retry-After",)),
        },
        error_statuses=(404, 409, 410),
        kind=KindRule.JOB,
    ),
    Endpoint(
        "POST",
        "/v1/jobs/{job_id}/fork",
        fork_job,
        "forkJob",
        "Fork a job at a step",
        "steering",
        {
            200: EndpointResponse(
                "The request was a replay, and its job is finished.",
                _JOB,
                ("Location", "Idempotency-Replayed"),
            ),
            202: EndpointResponse(
                "The new job is durable.",
                _JOB,
                ("Location", "Retry-After", "Idempotency-Replayed"),
                links_to_job=True,
            ),
        },
        error_statuses=(404, 408, 410, 413, 415, 422, 429),
        parameters=(IDEMPOTENCY_KEY, TRACEPARENT),
        body=EndpointBody("Where the fork starts.", as_json(ref("ForkRequest"))),
        kind=KindRule.JOB,
    ),
)
