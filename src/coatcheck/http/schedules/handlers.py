"""The calls on schedules: making, looking, pausing, triggering, deleting."""

from __future__ import annotations

import json
import logging
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.clock import to_rfc3339
from coatcheck.engine.engine import Engine
from coatcheck.engine.schedules.schedules import Schedules
from coatcheck.http.auth.caller import actor_of, admission_of, check_kind, tenant_of
from coatcheck.http.endpoint import JSON
from coatcheck.http.jobs.handlers import job_response, read_traceparent
from coatcheck.http.jobs.views import dumps
from coatcheck.http.request.body import read_json
from coatcheck.http.request.idempotency import REPLAYED, read_idempotency_key
from coatcheck.http.request.query import MAX_PAGE, PAGE, read_cursor, read_number, write_cursor
from coatcheck.http.schedules.models import read_definition
from coatcheck.logs import correlation_id
from coatcheck.model.access import Scope
from coatcheck.model.names import NAME_RULE, is_name
from coatcheck.model.schedule import Schedule

log = logging.getLogger(__name__)

TICKS, MAX_TICKS = 10, 100


async def list_schedules(request: Request) -> Response:
    """Answer with a page of schedules, by name."""
    query = request.query_params
    check_kind(request, Scope.READ, None)
    limit = read_number(query, "limit", PAGE, 1, MAX_PAGE)
    after = "" if (cursor := query.get("cursor")) is None else read_cursor(cursor, is_name)
    # One more than asked for tells whether there is another page.
    found = await _schedules(request).page(after, limit + 1, tenant_of(request))
    page = found[:limit]
    more = write_cursor(page[-1].name) if len(found) > limit else None
    listed = ",".join(schedule_json(schedule) for schedule in page)
    return Response(f'{{"schedules":[{listed}],"next_cursor":{dumps(more)}}}', media_type=JSON)


async def put_schedule(request: Request) -> Response:
    """Make a schedule (201), or change one to what is said now (200)."""
    name = request.path_params["schedule"]
    if not is_name(name):
        raise HTTPException(400, f"this cannot be a schedule's name: {NAME_RULE}")
    definition = read_definition(name, await read_json(request))
    check_kind(request, Scope.WRITE, definition.kind)
    schedule, is_new = await _schedules(request).put(
        definition, tenant=tenant_of(request), actor=actor_of(request)
    )
    log.info("schedule made" if is_new else "schedule changed", extra={"schedule": name})
    return _answer(schedule, 201 if is_new else 200)


async def get_schedule(request: Request) -> Response:
    """Answer with one schedule."""
    return _answer(
        await _schedules(request).get(request.path_params["schedule"], tenant_of(request))
    )


async def delete_schedule(request: Request) -> Response:
    """Delete a schedule, and answer with what it was; its jobs stay."""
    schedule = await _schedules(request).delete(
        request.path_params["schedule"], tenant_of(request), actor=actor_of(request)
    )
    log.info("schedule deleted", extra={"schedule": schedule.name})
    return _answer(schedule)


async def pause_schedule(request: Request) -> Response:
    """Stop a schedule; ticks that come meanwhile are not made up for."""
    schedule = await _schedules(request).pause(
        request.path_params["schedule"], tenant_of(request), actor=actor_of(request)
    )
    log.info("schedule paused", extra={"schedule": schedule.name})
    return _answer(schedule)


async def resume_schedule(request: Request) -> Response:
    """Let a paused schedule go on with its next tick."""
    schedule = await _schedules(request).resume(
        request.path_params["schedule"], tenant_of(request), actor=actor_of(request)
    )
    log.info("schedule resumed", extra={"schedule": schedule.name})
    return _answer(schedule)


async def trigger_schedule(request: Request) -> Response:
    """Make a job of a schedule now, also of a paused one; its ticks stay as they are."""
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
    """Answer with the next ticks of a schedule; of a paused one, as if it were resumed now."""
    schedules = _schedules(request)
    count = read_number(request.query_params, "limit", TICKS, 1, MAX_TICKS)
    schedule = await schedules.get(request.path_params["schedule"], tenant_of(request))
    ticks = [to_rfc3339(tick) for tick in schedules.upcoming(schedule, count)]
    return Response(dumps({"ticks": ticks}), media_type=JSON)


def schedule_json(schedule: Schedule) -> str:
    """Write a schedule as JSON. The input is JSON already and goes in as it is."""
    says, path = schedule.definition, f"/v1/schedules/{schedule.name}"
    timing = says.timing
    before = {"name": says.name, "kind": says.kind}
    after: dict[str, Any] = {
        "cron": timing.cron,
        "every_s": None if timing.every_ms is None else timing.every_ms / 1000,
        "start_at": _time(timing.start_at),
        "timezone": timing.timezone,
        "queue": says.queue,
        "priority": says.priority,
        "labels": json.loads(says.labels),
        "deadline_s": says.deadline_s,
        "max_attempts": says.max_attempts,
        "catch_up": says.catch_up,
        "overlap": says.overlap,
        "declared": schedule.declared,
        "paused": schedule.paused,
        "next_at": _time(schedule.next_at),
        "last_at": _time(schedule.last_at),
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
    return f'{dumps(before)[:-1]},"input":{says.input},{dumps(after)[1:]}'


def _answer(schedule: Schedule, status: int = 200) -> Response:
    headers = {"Location": f"/v1/schedules/{schedule.name}"} if status == 201 else None
    return Response(schedule_json(schedule), status, headers, JSON)


def _schedules(request: Request) -> Schedules:
    engine: Engine = request.app.state.engine
    return engine.schedules


def _time(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else to_rfc3339(milliseconds)
