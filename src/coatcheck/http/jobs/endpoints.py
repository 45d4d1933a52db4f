"""The endpoints for jobs."""

from __future__ import annotations

from coatcheck.documents.fields import StateName, Timestamp
from coatcheck.documents.jobs import StreamedEvent
from coatcheck.documents.schema import schema_of
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
from coatcheck.http.request.prefer import MAX_WAIT_S
from coatcheck.http.request.query import MAX_EVENT_PAGE, MAX_PAGE
from coatcheck.model.access import Scope

_RETRY = ("Retry-After",)
_LABEL = r"^[^:\u0000]+:[^\u0000]*$"
_JOB = as_json(ref("Job"))

_WAIT = Parameter(
    "wait",
    "Wait up to this many seconds until the job is finished.",
    {"type": "number", "minimum": 0, "maximum": MAX_WAIT_S},
)
_PREFER = Parameter(
    "Prefer",
    "`wait=N` waits up to N seconds for the result; `respond-async` responds at once (RFC 7240).",
    {"type": "string"},
    location="header",
)
_TEXT: Schema = {"type": "string"}
_TIME = schema_of(Timestamp)
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
                "The job is finished: within the wait, or before a replayed request.",
                _JOB,
                ("Location", "Preference-Applied", "Idempotency-Replayed"),
            ),
            202: EndpointResponse(
                "The job is durable.",
                _JOB,
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
        "Submit up to 10,000 jobs, all or none",
        "jobs",
        {
            202: EndpointResponse(
                "All jobs are durable.", as_json(ref("Batch")), ("Idempotency-Replayed",)
            )
        },
        error_statuses=(408, 409, 410, 413, 415, 422, 429),
        parameters=(IDEMPOTENCY_KEY, TRACEPARENT),
        body=EndpointBody(
            "The jobs: one JSON document, or one job per line.",
            {
                "application/json": {
                    "type": "object",
                    "properties": {
                        "jobs": {
                            "type": "array",
                            "items": ref("JobRequest"),
                            "minItems": 1,
                            "maxItems": 10_000,
                        }
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
        "List jobs, newest first",
        "jobs",
        {200: EndpointResponse("A page of jobs, without their results.", as_json(ref("JobPage")))},
        parameters=(
            Parameter("state", "Only jobs in this state.", schema_of(StateName)),
            Parameter("kind", "Only jobs of this kind.", _TEXT),
            Parameter("queue", "Only jobs of this queue.", _TEXT),
            Parameter(
                "label",
                "Only jobs with this label, as name:value; repeat it to require several.",
                {
                    "type": "array",
                    "items": {"type": "string", "pattern": _LABEL},
                    "maxItems": LABELS_AT_MOST,
                },
                repeated=True,
            ),
            Parameter("created_after", "Only jobs submitted at this time or later.", _TIME),
            Parameter("created_before", "Only jobs submitted before this time.", _TIME),
            Parameter("parent", "Only children of the job with this id.", _TEXT),
            Parameter("limit", "The page size.", _whole_number(1, MAX_PAGE)),
            Parameter("cursor", "The `next_cursor` of the previous page.", _CURSOR),
        ),
        kind=KindRule.REQUEST,
    ),
    Endpoint(
        "GET",
        "/v1/jobs/{job_id}",
        handlers.get_job,
        "getJob",
        "Get a job",
        "jobs",
        {
            200: EndpointResponse("The job.", _JOB, ("ETag", "Retry-After")),
            304: EndpointResponse("Unchanged since `If-None-Match`.", {}, ("ETag",)),
        },
        error_statuses=(404, 410),
        parameters=(
            _WAIT,
            Parameter(
                "explain",
                "1: add the reasons why the job does not run.",
                {"enum": ["0", "1", "true", "false"]},
            ),
            Parameter(
                "If-None-Match", "The ETag of an earlier response.", _TEXT, location="header"
            ),
        ),
        for_operators=True,
        kind=KindRule.JOB,
    ),
    Endpoint(
        "GET",
        "/v1/jobs/{job_id}/input",
        handlers.get_input,
        "getInput",
        "Get the input of a job",
        "jobs",
        {200: EndpointResponse("The input.", as_json({}))},
        error_statuses=(404, 409, 410),
        kind=KindRule.JOB,
        for_lease_holder=True,
    ),
    Endpoint(
        "GET",
        "/v1/jobs/{job_id}/result",
        handlers.get_result,
        "getResult",
        "Get the result of a job",
        "jobs",
        {
            200: EndpointResponse("The result, as the handler returned it.", as_json({})),
            202: EndpointResponse("The job, which is not finished.", _JOB, _RETRY),
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
        "Follow the events of a job",
        "jobs",
        {
            200: EndpointResponse(
                "Server-sent events (`state`, `progress`, `step`, `log`, `output`, and `end` with "
                "the job). A page of events for clients that accept JSON only.",
                {
                    events.EVENT_STREAM: schema_of(StreamedEvent),
                    "application/json": ref("EventPage"),
                },
            ),
            204: EndpointResponse("The job is finished, and you have all its events.", {}),
        },
        error_statuses=(404, 410),
        parameters=(
            Parameter("after", "Start after this event.", _whole_number(0, 2**63 - 1)),
            Parameter("limit", "JSON: the page size.", _whole_number(1, MAX_EVENT_PAGE)),
            Parameter("wait", "JSON: wait up to this many seconds for an event.", _WAIT.schema),
            events.LAST_EVENT_ID,
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
            200: EndpointResponse("The job is cancelled, or was finished before.", _JOB),
            202: EndpointResponse("The job is running; its handler was interrupted.", _JOB, _RETRY),
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
        "Delete a finished job",
        "jobs",
        {200: EndpointResponse("The receipt of what was removed.", as_json(ref("Receipt")))},
        error_statuses=(404, 409, 410),
        for_operators=True,
        kind=KindRule.JOB,
    ),
)
