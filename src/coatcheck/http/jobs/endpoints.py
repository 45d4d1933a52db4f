"""The part of the table of calls that is about jobs."""

from __future__ import annotations

from coatcheck.engine.submit.submission import LABELS_AT_MOST
from coatcheck.http.endpoint import (
    IDEMPOTENCY_KEY,
    TRACEPARENT,
    Endpoint,
    EndpointBody,
    EndpointResponse,
    KindRule,
    Parameter,
    Schema,
    as_json,
    ref,
)
from coatcheck.http.jobs import batches, events, handlers
from coatcheck.http.jobs.schemas import STREAMED
from coatcheck.http.json_schema import ANYTHING, STATE, TEXT, TIME, listed
from coatcheck.http.request.prefer import MAX_WAIT_S
from coatcheck.http.request.query import MAX_EVENT_PAGE, MAX_PAGE
from coatcheck.model.access import Scope

_RETRY = ("Retry-After",)
_LABEL = r"^[^:\u0000]+:[^\u0000]*$"
_A_JOB = as_json(ref("Job"))

_WAIT = Parameter(
    "wait",
    "Wait up to this many seconds for the job to end.",
    {"type": "number", "minimum": 0, "maximum": MAX_WAIT_S},
)
_PREFER = Parameter(
    "Prefer",
    "`wait=N` waits up to N seconds for the result, `respond-async` answers at once (RFC 7240).",
    {"type": "string"},
    location="header",
)
_CURSOR: Schema = {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"}


def _whole_number(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


JOBS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        "/v1/jobs",
        handlers.submit_job,
        "submitJob",
        "Submit a job",
        "jobs",
        {
            200: EndpointResponse(
                "It has ended: the wait was long enough, or the request was a repeated one.",
                _A_JOB,
                ("Location", "Preference-Applied", "Idempotency-Replayed"),
            ),
            202: EndpointResponse(
                "It is durable, and will be run.",
                _A_JOB,
                ("Location", "Retry-After", "Preference-Applied", "Idempotency-Replayed"),
                links_to_job=True,
            ),
        },
        error_statuses=(408, 409, 410, 413, 415, 422, 429),
        parameters=(IDEMPOTENCY_KEY, _PREFER, TRACEPARENT),
        body=EndpointBody("The job.", as_json(ref("JobRequest"))),
        kind=KindRule.REQUEST,
    ),
    Endpoint(
        "POST",
        "/v1/batches",
        batches.submit_batch,
        "submitBatch",
        "Submit up to 10,000 handlers, all or none",
        "jobs",
        {
            202: EndpointResponse(
                "All are durable.", as_json(ref("Batch")), ("Idempotency-Replayed",)
            )
        },
        error_statuses=(408, 409, 410, 413, 415, 422, 429),
        parameters=(IDEMPOTENCY_KEY, TRACEPARENT),
        body=EndpointBody(
            "The jobs: as one JSON document, or one a line.",
            {
                "application/json": {
                    "type": "object",
                    "properties": {
                        "jobs": {**listed(ref("JobRequest")), "minItems": 1, "maxItems": 10_000}
                    },
                    "required": ["jobs"],
                    "additionalProperties": False,
                },
                batches.NDJSON: {"type": "string"},
            },
        ),
        kind=KindRule.REQUEST,
    ),
    Endpoint(
        "GET",
        "/v1/jobs",
        handlers.list_jobs,
        "listJobs",
        "List handlers, newest first",
        "jobs",
        {
            200: EndpointResponse(
                "A page of handlers, without their results.", as_json(ref("JobPage"))
            )
        },
        parameters=(
            Parameter("state", "Only jobs in this state.", STATE),
            Parameter("kind", "Only jobs of this kind.", TEXT),
            Parameter("queue", "Only jobs of this queue.", TEXT),
            Parameter(
                "label",
                "Only jobs with this label, as name:value; several must all be there.",
                {**listed({"type": "string", "pattern": _LABEL}), "maxItems": LABELS_AT_MOST},
                repeated=True,
            ),
            Parameter("created_after", "Only jobs submitted at this time or later.", TIME),
            Parameter("created_before", "Only jobs submitted before this time.", TIME),
            Parameter("parent", "Only jobs that the job with this id has spawned.", TEXT),
            Parameter("limit", "How many.", _whole_number(1, MAX_PAGE)),
            Parameter("cursor", "`next_cursor` of the page before.", _CURSOR),
        ),
        kind=KindRule.REQUEST,
    ),
    Endpoint(
        "GET",
        "/v1/jobs/{job_id}",
        handlers.get_job,
        "getJob",
        "Look at a job",
        "jobs",
        {
            200: EndpointResponse("The job.", _A_JOB, ("ETag", "Retry-After")),
            304: EndpointResponse("It is still as `If-None-Match` says.", {}, ("ETag",)),
        },
        error_statuses=(404, 410),
        parameters=(
            _WAIT,
            Parameter("explain", "1: say what holds it.", {"enum": ["0", "1", "true", "false"]}),
            Parameter("If-None-Match", "An ETag given before.", TEXT, location="header"),
        ),
        for_operators=True,
        kind=KindRule.JOB,
    ),
    Endpoint(
        "GET",
        "/v1/jobs/{job_id}/input",
        handlers.get_input,
        "getInput",
        "Get what a job was submitted with",
        "jobs",
        {200: EndpointResponse("The input, as it was taken in.", as_json(ANYTHING))},
        error_statuses=(404, 409, 410),
        kind=KindRule.JOB,
        for_lease_holder=True,
    ),
    Endpoint(
        "GET",
        "/v1/jobs/{job_id}/result",
        handlers.get_result,
        "getResult",
        "Get a job's result alone",
        "jobs",
        {
            200: EndpointResponse("The result, as the handler returned it.", as_json(ANYTHING)),
            202: EndpointResponse("It has not ended yet: the job.", _A_JOB, _RETRY),
        },
        error_statuses=(404, 409, 410),
        parameters=(_WAIT,),
        kind=KindRule.JOB,
    ),
    Endpoint(
        "GET",
        "/v1/jobs/{job_id}/events",
        events.get_events,
        "getEvents",
        "Follow a job's log",
        "jobs",
        {
            200: EndpointResponse(
                "Server-sent events (`state`, `progress`, `step`, `log`, `output`, and `end` with "
                "the job); a page of the log for those who accept JSON only.",
                {events.EVENT_STREAM: STREAMED, "application/json": ref("EventPage")},
            ),
            204: EndpointResponse("The log has ended, and you have seen all of it.", {}),
        },
        error_statuses=(404, 410),
        parameters=(
            Parameter("after", "Begin after this event.", _whole_number(0, 2**63 - 1)),
            Parameter("limit", "JSON: how many.", _whole_number(1, MAX_EVENT_PAGE)),
            Parameter("wait", "JSON: wait up to so many seconds for an event.", _WAIT.schema),
            Parameter(
                "Last-Event-ID",
                "The last event you saw; it goes before `after`.",
                {"type": "string", "pattern": "^[0-9]{1,18}$"},
                location="header",
            ),
        ),
        kind=KindRule.JOB,
    ),
    Endpoint(
        "POST",
        "/v1/jobs/{job_id}/cancel",
        handlers.cancel_job,
        "cancelJob",
        "Cancel a job",
        "jobs",
        {
            200: EndpointResponse("It is cancelled, or had ended before.", _A_JOB),
            202: EndpointResponse("It runs; its handler was told to stop.", _A_JOB, _RETRY),
        },
        error_statuses=(404, 410),
        needs=Scope.CANCEL,
        for_operators=True,
        kind=KindRule.JOB,
    ),
    Endpoint(
        "DELETE",
        "/v1/jobs/{job_id}",
        handlers.delete_job,
        "deleteJob",
        "Delete a job that has ended",
        "jobs",
        {200: EndpointResponse("What was removed.", as_json(ref("Receipt")))},
        error_statuses=(404, 409, 410),
        for_operators=True,
        kind=KindRule.JOB,
    ),
)
