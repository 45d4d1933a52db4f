"""The part of the table of calls that is about what a job has done, and how it goes on."""

from __future__ import annotations

from coatcheck.http.endpoint import (
    IDEMPOTENCY_KEY,
    TRACEPARENT,
    Endpoint,
    EndpointBody,
    EndpointResponse,
    KindRule,
    Parameter,
    as_json,
    ref,
)
from coatcheck.http.jobs import bulk, card, steps
from coatcheck.http.jobs.card_view import STREAMED_CARD
from coatcheck.http.jobs.events import EVENT_STREAM
from coatcheck.http.json_schema import ANYTHING
from coatcheck.model.access import Scope

_A_JOB = as_json(ref("Job"))
_BODY_REFUSALS = (408, 413, 415, 422)

STEERING: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        "/v1/jobs/{job_id}/steps",
        steps.get_steps,
        "getSteps",
        "See what a job has done so far",
        "steering",
        {200: EndpointResponse("Its steps, in order.", as_json(ref("StepPage")))},
        error_statuses=(404, 410),
        kind=KindRule.JOB,
        for_lease_holder=True,
    ),
    Endpoint(
        "GET",
        "/v1/jobs/{job_id}/steps/{seq}/result",
        steps.get_step_result,
        "getStepResult",
        "Read what a step came to",
        "steering",
        {200: EndpointResponse("The result alone, as JSON.", as_json(ANYTHING))},
        error_statuses=(404, 410),
        kind=KindRule.JOB,
        for_lease_holder=True,
    ),
    Endpoint(
        "GET",
        "/v1/jobs/{job_id}/card",
        card.get_card,
        "getCard",
        "See a job as a progress card",
        "steering",
        {
            200: EndpointResponse(
                "The card; to those who accept server-sent events, a `card` whenever it has "
                "changed, and the last one as `end`.",
                {"application/json": ref("Card"), EVENT_STREAM: STREAMED_CARD},
            ),
            204: EndpointResponse("It has ended, and you have seen its last card.", {}),
        },
        error_statuses=(404, 410),
        parameters=(
            Parameter(
                "Last-Event-ID",
                "The last event of the stream that you saw.",
                {"type": "string", "pattern": "^[0-9]{1,18}$"},
                location="header",
            ),
        ),
        for_operators=True,
        kind=KindRule.JOB,
    ),
    Endpoint(
        "POST",
        "/v1/jobs/{job_id}/events/{name}",
        steps.send_event,
        "sendEvent",
        "Send an event to a job",
        "steering",
        {202: EndpointResponse("It is kept for the job.", _A_JOB, ("Retry-After",))},
        error_statuses=(404, 408, 409, 410, 413, 415, 422),
        parameters=(IDEMPOTENCY_KEY,),
        body=EndpointBody(
            "What comes with it; nothing is null.", as_json(ANYTHING), required=False
        ),
        kind=KindRule.JOB,
    ),
    Endpoint(
        "POST",
        "/v1/jobs/{job_id}/resume",
        steps.resume_job,
        "resumeJob",
        "Let a job go on that failed or was cancelled",
        "steering",
        {
            200: EndpointResponse("It had succeeded, or has not ended: it is as it was.", _A_JOB),
            202: EndpointResponse("It is queued again.", _A_JOB, ("Retry-After",)),
        },
        error_statuses=(404, 409, 410),
        kind=KindRule.JOB,
    ),
    Endpoint(
        "POST",
        "/v1/resumptions",
        bulk.resume_jobs,
        "resumeJobs",
        "Let all jobs go on that a filter finds",
        "steering",
        {200: EndpointResponse("How many there were.", as_json(ref("DoneToJobs")))},
        error_statuses=_BODY_REFUSALS,
        body=EndpointBody("Which jobs.", as_json(ref("ResumeRequest"))),
        kind=KindRule.REQUEST,
    ),
    Endpoint(
        "POST",
        "/v1/cancellations",
        bulk.cancel_jobs,
        "cancelJobs",
        "Cancel all jobs that a filter finds",
        "steering",
        {200: EndpointResponse("How many there were.", as_json(ref("DoneToJobs")))},
        error_statuses=_BODY_REFUSALS,
        body=EndpointBody("Which jobs.", as_json(ref("CancelRequest"))),
        needs=Scope.CANCEL,
        kind=KindRule.REQUEST,
    ),
    Endpoint(
        "POST",
        "/v1/deletions",
        bulk.delete_jobs,
        "deleteJobs",
        "Delete all jobs that a filter finds",
        "steering",
        {200: EndpointResponse("How many there were.", as_json(ref("DoneToJobs")))},
        error_statuses=_BODY_REFUSALS,
        body=EndpointBody("Which jobs.", as_json(ref("DeleteRequest"))),
        kind=KindRule.REQUEST,
    ),
    Endpoint(
        "POST",
        "/v1/jobs/{job_id}/fork",
        steps.fork_job,
        "forkJob",
        "Begin a new job at a step of another",
        "steering",
        {
            200: EndpointResponse(
                "The request was a repeated one, and its job has ended.",
                _A_JOB,
                ("Location", "Idempotency-Replayed"),
            ),
            202: EndpointResponse(
                "The new job is durable, and will be run.",
                _A_JOB,
                ("Location", "Retry-After", "Idempotency-Replayed"),
                links_to_job=True,
            ),
        },
        error_statuses=(404, 410, *_BODY_REFUSALS, 429),
        parameters=(IDEMPOTENCY_KEY, TRACEPARENT),
        body=EndpointBody("Where it begins.", as_json(ref("ForkRequest"))),
        kind=KindRule.JOB,
    ),
)
