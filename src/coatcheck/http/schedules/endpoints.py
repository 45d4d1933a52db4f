"""The part of the table of calls that is about schedules."""

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
from coatcheck.http.request.query import MAX_PAGE
from coatcheck.http.schedules import handlers

_ONE = "/v1/schedules/{schedule}"
_A_SCHEDULE = as_json(ref("Schedule"))

SCHEDULES: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        "/v1/schedules",
        handlers.list_schedules,
        "listSchedules",
        "List the schedules",
        "schedules",
        {200: EndpointResponse("A page of handlers, by name.", as_json(ref("SchedulePage")))},
        parameters=(
            Parameter("limit", "How many.", {"type": "integer", "minimum": 1, "maximum": MAX_PAGE}),
            Parameter(
                "cursor",
                "`next_cursor` of the page before.",
                {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"},
            ),
        ),
        kind=KindRule.ALL,
    ),
    Endpoint(
        "PUT",
        _ONE,
        handlers.put_schedule,
        "putSchedule",
        "Make or change a schedule",
        "schedules",
        {
            200: EndpointResponse("It was there, and says this now.", _A_SCHEDULE),
            201: EndpointResponse("It is new.", _A_SCHEDULE, ("Location",)),
        },
        error_statuses=(408, 409, 413, 415, 422),
        body=EndpointBody("Which job, and when.", as_json(ref("ScheduleRequest"))),
        kind=KindRule.SCHEDULE,
    ),
    Endpoint(
        "GET",
        _ONE,
        handlers.get_schedule,
        "getSchedule",
        "Look at a schedule",
        "schedules",
        {200: EndpointResponse("The schedule.", _A_SCHEDULE)},
        error_statuses=(404,),
        kind=KindRule.SCHEDULE,
    ),
    Endpoint(
        "DELETE",
        _ONE,
        handlers.delete_schedule,
        "deleteSchedule",
        "Delete a schedule",
        "schedules",
        {200: EndpointResponse("What it was; its jobs stay.", _A_SCHEDULE)},
        error_statuses=(404,),
        kind=KindRule.SCHEDULE,
    ),
    Endpoint(
        "POST",
        f"{_ONE}/pause",
        handlers.pause_schedule,
        "pauseSchedule",
        "Stop a schedule",
        "schedules",
        {200: EndpointResponse("The schedule; what it has started goes on.", _A_SCHEDULE)},
        error_statuses=(404,),
        kind=KindRule.SCHEDULE,
    ),
    Endpoint(
        "POST",
        f"{_ONE}/resume",
        handlers.resume_schedule,
        "resumeSchedule",
        "Let a schedule go on",
        "schedules",
        {200: EndpointResponse("The schedule, and its next tick.", _A_SCHEDULE)},
        error_statuses=(404,),
        kind=KindRule.SCHEDULE,
    ),
    Endpoint(
        "POST",
        f"{_ONE}/trigger",
        handlers.trigger_schedule,
        "triggerSchedule",
        "Run a schedule's job now",
        "schedules",
        {
            200: EndpointResponse(
                "It was triggered under this key before, and the job has ended.",
                as_json(ref("Job")),
                ("Location", "Idempotency-Replayed"),
            ),
            202: EndpointResponse(
                "The job is durable, and will be run.",
                as_json(ref("Job")),
                ("Location", "Retry-After", "Idempotency-Replayed"),
                links_to_job=True,
            ),
        },
        error_statuses=(404, 410, 422, 429),
        parameters=(IDEMPOTENCY_KEY, TRACEPARENT),
        kind=KindRule.SCHEDULE,
    ),
    Endpoint(
        "GET",
        f"{_ONE}/ticks",
        handlers.get_ticks,
        "getTicks",
        "Look ahead: when a schedule is due",
        "schedules",
        {200: EndpointResponse("The next times, in order.", as_json(ref("Ticks")))},
        error_statuses=(404,),
        parameters=(
            Parameter(
                "limit",
                "How many (10).",
                {"type": "integer", "minimum": 1, "maximum": handlers.MAX_TICKS},
            ),
        ),
        kind=KindRule.SCHEDULE,
    ),
)
