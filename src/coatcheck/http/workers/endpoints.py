"""The endpoints for workers in any language."""

from __future__ import annotations

from coatcheck.http.endpoint import Endpoint, EndpointBody, EndpointResponse, KindRule, as_json, ref
from coatcheck.http.workers import handlers
from coatcheck.model.access import Scope

_JOB = as_json(ref("Job"))
_LEASE = "/v1/jobs/{job_id}/leases/{fence}"
_LEASE_ERRORS = (404, 409, 410)
_BODY_ERRORS = (408, 413, 415, 422)

WORKERS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        "/v1/claims",
        handlers.claim_jobs,
        "claimJobs",
        "Claim jobs to run, from a worker in any language",
        "working",
        {
            200: EndpointResponse(
                "The claimed jobs, if any, and the length of their leases.", as_json(ref("Claims"))
            )
        },
        error_statuses=_BODY_ERRORS,
        body=EndpointBody("What the worker runs.", as_json(ref("ClaimRequest"))),
        needs=Scope.WORK,
        kind=KindRule.REQUEST,
    ),
    Endpoint(
        "POST",
        f"{_LEASE}/heartbeat",
        handlers.heartbeat,
        "heartbeat",
        "Renew a lease, and learn whether to stop",
        "working",
        {200: EndpointResponse("The lease is renewed.", as_json(ref("Heartbeat")))},
        error_statuses=_LEASE_ERRORS,
        needs=Scope.WORK,
        kind=KindRule.JOB,
    ),
    Endpoint(
        "POST",
        f"{_LEASE}/steps",
        handlers.record_steps,
        "recordSteps",
        "Record steps of a job",
        "working",
        {200: EndpointResponse("The job.", _JOB)},
        error_statuses=(*_LEASE_ERRORS, *_BODY_ERRORS),
        body=EndpointBody("The steps.", as_json(ref("StepsRequest"))),
        needs=Scope.WORK,
        kind=KindRule.JOB,
    ),
    Endpoint(
        "POST",
        f"{_LEASE}/progress",
        handlers.report_progress,
        "reportProgress",
        "Report the progress of a job",
        "working",
        {200: EndpointResponse("The job.", _JOB)},
        error_statuses=(*_LEASE_ERRORS, *_BODY_ERRORS),
        body=EndpointBody("The progress.", as_json(ref("ProgressRequest"))),
        needs=Scope.WORK,
        kind=KindRule.JOB,
    ),
    Endpoint(
        "POST",
        f"{_LEASE}/complete",
        handlers.complete,
        "completeJob",
        "Complete a job",
        "working",
        {200: EndpointResponse("The job.", _JOB)},
        error_statuses=(*_LEASE_ERRORS, *_BODY_ERRORS),
        body=EndpointBody("The result.", as_json(ref("CompleteRequest"))),
        needs=Scope.WORK,
        kind=KindRule.JOB,
    ),
    Endpoint(
        "POST",
        f"{_LEASE}/fail",
        handlers.fail,
        "failJob",
        "Fail an attempt",
        "working",
        {200: EndpointResponse("The job, queued for a retry or failed.", _JOB)},
        error_statuses=(*_LEASE_ERRORS, *_BODY_ERRORS),
        body=EndpointBody("The error.", as_json(ref("FailRequest"))),
        needs=Scope.WORK,
        kind=KindRule.JOB,
    ),
    Endpoint(
        "POST",
        f"{_LEASE}/release",
        handlers.release,
        "releaseJob",
        "Release a job without counting the attempt",
        "working",
        {200: EndpointResponse("The job, queued again.", _JOB)},
        error_statuses=_LEASE_ERRORS,
        needs=Scope.WORK,
        kind=KindRule.JOB,
    ),
)
