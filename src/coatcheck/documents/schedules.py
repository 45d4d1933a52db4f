"""Schedules and their ticks."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import WithJsonSchema

from coatcheck.documents.fields import Count, Links, Timestamp
from coatcheck.documents.schema import Document
from coatcheck.model.schedule import CatchUp, Overlap


class ScheduleHead(Document):
    """The members of a schedule before its input."""

    name: str
    kind: str


class ScheduleTail(Document):
    """The members of a schedule after its input."""

    cron: str | None
    every_s: float | None
    start_at: Timestamp | None
    timezone: str
    queue: str | None
    priority: int
    labels: dict[str, str]
    deadline_s: float | None
    max_attempts: Count | None
    catch_up: Annotated[str, WithJsonSchema({"type": "string", "enum": list(CatchUp)})]
    overlap: Annotated[str, WithJsonSchema({"type": "string", "enum": list(Overlap)})]
    declared: bool
    paused: bool
    next_at: Timestamp | None
    last_at: Timestamp | None
    last_job: str | None
    problem: str | None
    created_at: Timestamp
    updated_at: Timestamp
    links: Links


class ScheduleDocument(ScheduleHead, ScheduleTail):
    """A rule that submits jobs by the clock."""

    input: Any


class SchedulePage(Document):
    """A page of schedules."""

    schedules: list[ScheduleDocument]
    next_cursor: str | None


class TicksDocument(Document):
    """The next ticks of a schedule."""

    ticks: list[Timestamp]
