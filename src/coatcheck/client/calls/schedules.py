"""The calls on schedules."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict
from urllib.parse import quote

from coatcheck.client.effects import Effects
from coatcheck.client.new_job import NewJob, write_schedule
from coatcheck.client.responses import read_object
from coatcheck.client.retry import RequestRetryPolicy
from coatcheck.client.wire import JSON_HEADERS, ApiRequest

Schedule = dict[str, Any]
_MEMBERS = ("name", "kind", "next_at")
_PAGE = "200"


class ScheduleOptions(TypedDict, total=False):
    """The timing of a schedule, and the options of its jobs."""

    cron: str | None
    every_s: float | None
    start_at: datetime | None
    timezone: str | None
    queue: str | None
    priority: int
    labels: Mapping[str, str] | None
    deadline_s: float | None
    max_attempts: int | None
    catch_up: Literal["latest", "skip", "all"]
    overlap: Literal["allow", "skip"]


class ScheduleCalls:
    """The calls on schedules, as effects that a driver performs."""

    def __init__(self, policy: RequestRetryPolicy) -> None:
        self._policy = policy

    def all(self) -> Effects[list[Schedule]]:
        """Read all schedules, page by page."""
        found: list[Schedule] = []
        cursor: str | None = None
        while True:
            query = (("limit", _PAGE), *(() if cursor is None else (("cursor", cursor),)))
            request = ApiRequest("GET", "/v1/schedules", query)
            page = yield from self._request(request, "schedules", "next_cursor")
            found += page["schedules"]
            cursor = page["next_cursor"]
            if cursor is None:
                return found

    def get(self, name: str) -> Effects[Schedule]:
        """Read a schedule."""
        return self._request(ApiRequest("GET", _path(name)), *_MEMBERS)

    def put(self, name: str, kind: str, value: Any, options: ScheduleOptions) -> Effects[Schedule]:
        """Create or replace a schedule."""
        start_at = options.get("start_at")
        timing = {
            **{key: options.get(key) for key in ("cron", "every_s", "timezone")},
            "start_at": None if start_at is None else start_at.isoformat(),
            "catch_up": options.get("catch_up"),
            "overlap": options.get("overlap"),
        }
        job = NewJob(
            kind,
            value,
            queue=options.get("queue"),
            priority=options.get("priority", 0),
            labels=options.get("labels"),
            deadline_s=options.get("deadline_s"),
            max_attempts=options.get("max_attempts"),
        )
        content = write_schedule(job, timing)
        request = ApiRequest("PUT", _path(name), headers=JSON_HEADERS, content=content)
        return self._request(request, *_MEMBERS)

    def delete(self, name: str) -> Effects[Schedule]:
        """Delete a schedule and return it."""
        response, retries = yield from self._policy.send(ApiRequest("DELETE", _path(name)))
        if retries and response.status == 404:  # deleted by an attempt whose response was lost
            return {"name": name}
        return read_object(response, *_MEMBERS)

    def pause(self, name: str) -> Effects[Schedule]:
        """Pause a schedule."""
        return self._request(ApiRequest("POST", f"{_path(name)}/pause"), *_MEMBERS)

    def resume(self, name: str) -> Effects[Schedule]:
        """Resume a schedule."""
        return self._request(ApiRequest("POST", f"{_path(name)}/resume"), *_MEMBERS)

    def ticks(self, name: str, limit: int) -> Effects[list[str]]:
        """Read the next ticks of a schedule."""
        request = ApiRequest("GET", f"{_path(name)}/ticks", (("limit", str(limit)),))
        ticks: list[str] = (yield from self._request(request, "ticks"))["ticks"]
        return ticks

    def _request(self, request: ApiRequest, *members: str) -> Effects[Schedule]:
        response, _ = yield from self._policy.send(request)
        return read_object(response, *members)


def trigger_path(name: str) -> str:
    """Return the path that triggers a schedule."""
    return f"{_path(name)}/trigger"


def _path(name: str) -> str:
    return f"/v1/schedules/{quote(name, safe='')}"
