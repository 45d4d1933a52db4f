"""The endpoints for schedules."""

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
_SCHEDULE = as_json(ref("Schedule"))

SCHEDULES: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        "/v1/schedules",
        handlers.list_schedules,
        "listSchedules",
        "List schedules",
        "schedules",
        {200: EndpointResponse("A page of schedules, by name.", as_json(ref("SchedulePage")))},
        parameters=(
            Parameter(
                "limit", "The page size.", {"type": "integer", "minimum": 1, "maximum": MAX_PAGE}
            ),
            Parameter(
                "cursor",
                "The `next_cursor` of the previous page.",
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
        "Create or replace a schedule",
        "schedules",
        {
            200: EndpointResponse("The schedule was replaced.", _SCHEDULE),
            201: EndpointResponse("The schedule was created.", _SCHEDULE, ("Location",)),
        },
        error_statuses=(408, 409, 413, 415, 422),
        body=EndpointBody("The job, and when to submit it.", as_json(ref("ScheduleRequest"))),
        kind=KindRule.SCHEDULE,
    ),
    Endpoint(
        "GET",
        _ONE,
        handlers.get_schedule,
        "getSchedule",
        "Get a schedule",
        "schedules",
        {200: EndpointResponse("The schedule.", _SCHEDULE)},
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
        {200: EndpointResponse("The deleted schedule. Its jobs are kept.", _SCHEDULE)},
        error_statuses=(404,),
        kind=KindRule.SCHEDULE,
    ),
    Endpoint(
        "POST",
        f"{_ONE}/pause",
        handlers.pause_schedule,
        "pauseSchedule",
        "Pause a schedule",
        "schedules",
        {200: EndpointResponse("The schedule. Its running jobs continue.", _SCHEDULE)},
        error_statuses=(404,),
        kind=KindRule.SCHEDULE,
    ),
    Endpoint(
        "POST",
        f"{_ONE}/resume",
        handlers.resume_schedule,
        "resumeSchedule",
        "Resume a schedule",
        "schedules",
        {200: EndpointResponse("The schedule with its next tick.", _SCHEDULE)},
        error_statuses=(404,),
        kind=KindRule.SCHEDULE,
    ),
    Endpoint(
        "POST",
        f"{_ONE}/trigger",
        handlers.trigger_schedule,
        "triggerSchedule",
        "Submit the job of a schedule now",
        "schedules",
        {
            200: EndpointResponse(
                "The request was a replay, and its job is finished.",
                as_json(ref("Job")),
                ("Location", "Idempotency-Replayed"),
            ),
            202: EndpointResponse(
                "The job is durable.",
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
        "List the next ticks of a schedule",
        "schedules",
        {200: EndpointResponse("The next ticks, in order.", as_json(ref("Ticks")))},
        error_statuses=(404,),
        parameters=(
            Parameter(
                "limit",
                "The number of ticks (10).",
                {"type": "integer", "minimum": 1, "maximum": handlers.MAX_TICKS},
            ),
        ),
        kind=KindRule.SCHEDULE,
    ),
)
