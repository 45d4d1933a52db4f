"""The calls on schedules, once, for both clients."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict
from urllib.parse import quote

from coatcheck.client.effects import Steps
from coatcheck.client.new_job import NewJob, write_schedule
from coatcheck.client.responses import read_object
from coatcheck.client.retry import RetryPolicy
from coatcheck.client.wire import JSON, ApiRequest

Shown = dict[str, Any]
_MEMBERS = ("name", "kind", "next_at")
_PAGE = "200"


class ScheduleOptions(TypedDict, total=False):
    """When a schedule's jobs are due, and how they should be treated."""

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
    """The calls of one client, as steps that a driver carries out."""

    def __init__(self, patience: RetryPolicy) -> None:
        self._patience = patience

    def all(self) -> Steps[list[Shown]]:
        """Read all schedules, page by page."""
        found: list[Shown] = []
        cursor: str | None = None
        while True:
            query = (("limit", _PAGE), *(() if cursor is None else (("cursor", cursor),)))
            request = ApiRequest("GET", "/v1/schedules", query)
            page = yield from self._object(request, "schedules", "next_cursor")
            found += page["schedules"]
            cursor = page["next_cursor"]
            if cursor is None:
                return found

    def get(self, name: str) -> Steps[Shown]:
        """Read a schedule."""
        return self._object(ApiRequest("GET", _path(name)), *_MEMBERS)

    def put(self, name: str, kind: str, value: Any, options: ScheduleOptions) -> Steps[Shown]:
        """Make a schedule, or change it to this."""
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
        headers = {"accept": JSON, "content-type": JSON}
        content = write_schedule(job, timing)
        return self._object(ApiRequest("PUT", _path(name), (), headers, content), *_MEMBERS)

    def delete(self, name: str) -> Steps[None]:
        """Delete a schedule."""
        answer, lost = yield from self._patience.ask(ApiRequest("DELETE", _path(name)))
        if not (lost and answer.status == 404):  # deleted by a request whose answer was lost
            read_object(answer)

    def pause(self, name: str) -> Steps[Shown]:
        """Stop a schedule."""
        return self._object(ApiRequest("POST", f"{_path(name)}/pause"), *_MEMBERS)

    def resume(self, name: str) -> Steps[Shown]:
        """Let a schedule go on."""
        return self._object(ApiRequest("POST", f"{_path(name)}/resume"), *_MEMBERS)

    def ticks(self, name: str, limit: int) -> Steps[list[str]]:
        """Read when a schedule is due next."""
        request = ApiRequest("GET", f"{_path(name)}/ticks", (("limit", str(limit)),))
        ticks: list[str] = (yield from self._object(request, "ticks"))["ticks"]
        return ticks

    def _object(self, request: ApiRequest, *members: str) -> Steps[Shown]:
        answer, _ = yield from self._patience.ask(request)
        return read_object(answer, *members)


def trigger_path(name: str) -> str:
    """Return where a schedule's job is asked for."""
    return f"{_path(name)}/trigger"


def _path(name: str) -> str:
    return f"/v1/schedules/{quote(name, safe='')}"
