"""The handlers of schedules: create, read, pause, resume, trigger and delete."""

from __future__ import annotations

import json
import logging
from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.clock import to_rfc3339
from coatcheck.documents.schedules import ScheduleHead, ScheduleTail, TicksDocument
from coatcheck.documents.schema import documented_as, nullable
from coatcheck.engine.engine import Engine
from coatcheck.engine.schedules.schedules import Schedules
from coatcheck.http.auth.caller import actor_of, admission_of, check_kind, tenant_of
from coatcheck.http.endpoint import JSON
from coatcheck.http.jobs.handlers import job_response, read_traceparent
from coatcheck.http.jobs.models import Deadline, Labels, MaxAttempts, Priority, Queue, encode
from coatcheck.http.jobs.views import dumps, optional_time
from coatcheck.http.request.body import read_json
from coatcheck.http.request.idempotency import REPLAYED, read_idempotency_key
from coatcheck.http.request.models import OptionalTime, RequestModel, validate_model
from coatcheck.http.request.query import MAX_PAGE, PAGE, read_cursor, read_number, write_cursor
from coatcheck.logs import correlation_id
from coatcheck.model.access import Scope
from coatcheck.model.names import NAME_RULE, is_name
from coatcheck.model.schedule import (
    DEFAULT_ZONE,
    LONGEST_MS,
    SHORTEST_MS,
    CatchUp,
    Overlap,
    Schedule,
    ScheduleDefinition,
    Timing,
)

log = logging.getLogger(__name__)

TICKS, MAX_TICKS = 10, 100


class ScheduleRequest(RequestModel):
    """A schedule: a job without a time, and when to submit it."""

    kind: str
    input: Any = None
    cron: Annotated[
        str | None,
        Field(json_schema_extra=documented_as(nullable({"type": "string", "maxLength": 200}))),
    ] = None
    every_s: Annotated[
        float | None,
        Field(
            allow_inf_nan=False,
            json_schema_extra=documented_as(
                nullable(
                    {
                        "type": "number",
                        "minimum": SHORTEST_MS / 1000,
                        "maximum": LONGEST_MS / 1000,
                    }
                )
            ),
        ),
    ] = None
    start_at: OptionalTime = None
    timezone: str = DEFAULT_ZONE
    queue: Queue = None
    priority: Priority = 0
    labels: Labels = Field(default_factory=dict)
    deadline_s: Deadline = None
    max_attempts: MaxAttempts = None
    catch_up: Literal["latest", "skip", "all"] = "latest"
    overlap: Literal["allow", "skip"] = "allow"


def read_definition(name: str, body: Any) -> ScheduleDefinition:
    """Validate the body of a schedule; raise InvalidPayload with a pointer to each problem."""
    wanted = validate_model(body, ScheduleRequest, "a schedule")
    return ScheduleDefinition(
        name=name,
        kind=wanted.kind,
        timing=Timing(
            cron=wanted.cron,
            every_ms=None if wanted.every_s is None else round(wanted.every_s * 1000),
            start_at=wanted.start_at,
            timezone=wanted.timezone,
        ),
        input=encode(wanted.input),
        queue=wanted.queue,
        priority=wanted.priority,
        labels=json.dumps(wanted.labels, sort_keys=True),
        deadline_s=wanted.deadline_s,
        max_attempts=wanted.max_attempts,
        catch_up=CatchUp(wanted.catch_up),
        overlap=Overlap(wanted.overlap),
    )


async def list_schedules(request: Request) -> Response:
    """Return a page of schedules, by name."""
    query = request.query_params
    check_kind(request, Scope.READ, None)
    limit = read_number(query, "limit", PAGE, 1, MAX_PAGE)
    after = "" if (cursor := query.get("cursor")) is None else read_cursor(cursor, is_name)
    # One more than the limit tells whether there is another page.
    found = await _schedules(request).page(after, limit + 1, tenant_of(request))
    page = found[:limit]
    more = write_cursor(page[-1].name) if len(found) > limit else None
    schedules = ",".join(schedule_json(schedule) for schedule in page)
    return Response(f'{{"schedules":[{schedules}],"next_cursor":{dumps(more)}}}', media_type=JSON)


async def put_schedule(request: Request) -> Response:
    """Create a schedule (201) or replace it (200)."""
    name = request.path_params["schedule"]
    if not is_name(name):
        raise HTTPException(400, f"invalid schedule name: {NAME_RULE}")
    definition = read_definition(name, await read_json(request))
    check_kind(request, Scope.WRITE, definition.kind)
    schedule, is_new = await _schedules(request).put(
        definition, tenant=tenant_of(request), actor=actor_of(request)
    )
    log.info("schedule created" if is_new else "schedule updated", extra={"schedule": name})
    return _response(schedule, 201 if is_new else 200)


async def get_schedule(request: Request) -> Response:
    """Return a schedule."""
    return _response(
        await _schedules(request).get(request.path_params["schedule"], tenant_of(request))
    )


async def delete_schedule(request: Request) -> Response:
    """Delete a schedule and return it. Its jobs are kept."""
    schedule = await _schedules(request).delete(
        request.path_params["schedule"], tenant_of(request), actor=actor_of(request)
    )
    log.info("schedule deleted", extra={"schedule": schedule.name})
    return _response(schedule)


async def pause_schedule(request: Request) -> Response:
    """Pause a schedule. Ticks that fall due while it is paused are skipped."""
    schedule = await _schedules(request).pause(
        request.path_params["schedule"], tenant_of(request), actor=actor_of(request)
    )
    log.info("schedule paused", extra={"schedule": schedule.name})
    return _response(schedule)


async def resume_schedule(request: Request) -> Response:
    """Resume a paused schedule with its next tick."""
    schedule = await _schedules(request).resume(
        request.path_params["schedule"], tenant_of(request), actor=actor_of(request)
    )
    log.info("schedule resumed", extra={"schedule": schedule.name})
    return _response(schedule)


async def trigger_schedule(request: Request) -> Response:
    """Submit a schedule's job now, even if the schedule is paused. Its ticks do not change."""
    engine: Engine = request.app.state.engine
    name = request.path_params["schedule"]
    [job], replayed = await engine.trigger(
        name,
        read_idempotency_key(request, None),
        correlation=correlation_id.get(),
        traceparent=read_traceparent(request),
        tenant=tenant_of(request),
        admission=admission_of(request),
    )
    log.info("schedule triggered", extra={"schedule": name, "job_id": job.id})
    headers = {"Location": f"/v1/jobs/{job.id}"}
    if replayed:
        headers[REPLAYED] = "true"
    return job_response(engine, job, 200 if job.state.is_terminal else 202, headers)


async def get_ticks(request: Request) -> Response:
    """Return the next ticks of a schedule; if it is paused, as if it were resumed now."""
    schedules = _schedules(request)
    count = read_number(request.query_params, "limit", TICKS, 1, MAX_TICKS)
    schedule = await schedules.get(request.path_params["schedule"], tenant_of(request))
    ticks = [to_rfc3339(tick) for tick in schedules.upcoming(schedule, count)]
    document: TicksDocument = {"ticks": ticks}
    return Response(dumps(document), media_type=JSON)


def schedule_json(schedule: Schedule) -> str:
    """Serialize a schedule. Its input is stored as JSON text and written unparsed."""
    definition, path = schedule.definition, f"/v1/schedules/{schedule.name}"
    timing = definition.timing
    head: ScheduleHead = {"name": definition.name, "kind": definition.kind}
    tail: ScheduleTail = {
        "cron": timing.cron,
        "every_s": None if timing.every_ms is None else timing.every_ms / 1000,
        "start_at": optional_time(timing.start_at),
        "timezone": timing.timezone,
        "queue": definition.queue,
        "priority": definition.priority,
        "labels": json.loads(definition.labels),
        "deadline_s": definition.deadline_s,
        "max_attempts": definition.max_attempts,
        "catch_up": definition.catch_up,
        "overlap": definition.overlap,
        "declared": schedule.declared,
        "paused": schedule.paused,
        "next_at": optional_time(schedule.next_at),
        "last_at": optional_time(schedule.last_at),
        "last_job": schedule.last_job,
        "problem": schedule.problem,
        "created_at": to_rfc3339(schedule.created_at),
        "updated_at": to_rfc3339(schedule.updated_at),
        "links": {
            "self": path,
            "ticks": f"{path}/ticks",
            "jobs": f"/v1/jobs?label=schedule:{schedule.name}",
        },
    }
    return f'{dumps(head)[:-1]},"input":{definition.input},{dumps(tail)[1:]}'


def _response(schedule: Schedule, status: int = 200) -> Response:
    headers = {"Location": f"/v1/schedules/{schedule.name}"} if status == 201 else None
    return Response(schedule_json(schedule), status, headers, JSON)


def _schedules(request: Request) -> Schedules:
    engine: Engine = request.app.state.engine
    return engine.schedules
