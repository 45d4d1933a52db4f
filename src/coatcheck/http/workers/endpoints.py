"""The part of the table of calls that is for workers in any language."""

from __future__ import annotations

from coatcheck.http.endpoint import Endpoint, EndpointBody, EndpointResponse, KindRule, as_json, ref
from coatcheck.http.workers import handlers
from coatcheck.model.access import Scope

_A_JOB = as_json(ref("Job"))
_LEASE = "/v1/jobs/{job_id}/leases/{fence}"
_LEASE_REFUSALS = (404, 409, 410)
_BODY_REFUSALS = (408, 413, 415, 422)

WORK: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        "/v1/claims",
        handlers.claim_jobs,
        "claimJobs",
        "Take jobs to run, from a worker in any language",
        "working",
        {
            200: EndpointResponse(
                "The jobs, if there are any, and how long they are yours.", as_json(ref("Claims"))
            )
        },
        error_statuses=_BODY_REFUSALS,
        body=EndpointBody("What the worker can run.", as_json(ref("ClaimRequest"))),
        needs=Scope.WORK,
        kind=KindRule.REQUEST,
    ),
    Endpoint(
        "POST",
        f"{_LEASE}/heartbeat",
        handlers.beat,
        "heartbeat",
        "Keep a job, and hear whether to stop",
        "working",
        {200: EndpointResponse("It is yours for another lease.", as_json(ref("Heartbeat")))},
        error_statuses=_LEASE_REFUSALS,
        needs=Scope.WORK,
        kind=KindRule.JOB,
    ),
    Endpoint(
        "POST",
        f"{_LEASE}/steps",
        handlers.record_steps,
        "recordSteps",
        "Write what a job has done once and for all",
        "working",
        {200: EndpointResponse("The job.", _A_JOB)},
        error_statuses=(*_LEASE_REFUSALS, *_BODY_REFUSALS),
        body=EndpointBody("The steps.", as_json(ref("StepsRequest"))),
        needs=Scope.WORK,
        kind=KindRule.JOB,
    ),
    Endpoint(
        "POST",
        f"{_LEASE}/progress",
        handlers.report_progress,
        "reportProgress",
        "Say how far a job has come",
        "working",
        {200: EndpointResponse("The job.", _A_JOB)},
        error_statuses=(*_LEASE_REFUSALS, *_BODY_REFUSALS),
        body=EndpointBody("What to say.", as_json(ref("ProgressRequest"))),
        needs=Scope.WORK,
        kind=KindRule.JOB,
    ),
    Endpoint(
        "POST",
        f"{_LEASE}/complete",
        handlers.complete,
        "completeJob",
        "End a job well",
        "working",
        {200: EndpointResponse("The job.", _A_JOB)},
        error_statuses=(*_LEASE_REFUSALS, *_BODY_REFUSALS),
        body=EndpointBody("Its result.", as_json(ref("CompleteRequest"))),
        needs=Scope.WORK,
        kind=KindRule.JOB,
    ),
    Endpoint(
        "POST",
        f"{_LEASE}/fail",
        handlers.fail,
        "failJob",
        "End an attempt badly",
        "working",
        {200: EndpointResponse("The job, queued again or failed.", _A_JOB)},
        error_statuses=(*_LEASE_REFUSALS, *_BODY_REFUSALS),
        body=EndpointBody("Why.", as_json(ref("FailRequest"))),
        needs=Scope.WORK,
        kind=KindRule.JOB,
    ),
    Endpoint(
        "POST",
        f"{_LEASE}/release",
        handlers.release,
        "releaseJob",
        "Give a job back without counting the attempt",
        "working",
        {200: EndpointResponse("The job, queued again.", _A_JOB)},
        error_statuses=_LEASE_REFUSALS,
        needs=Scope.WORK,
        kind=KindRule.JOB,
    ),
)
