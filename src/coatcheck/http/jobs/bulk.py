"""The calls that do the same with all jobs a filter finds: resume, cancel, delete.

Each deals with up to 1,000 jobs, newest first; `next_cursor` leads to the others. With `dry_run`
they are only counted, so that a person can be asked first. Jobs that the caller may not read are
skipped (readers.py).
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.engine.bulk import MAX_JOBS, BulkResult
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import LABELS_AT_MOST
from coatcheck.http.auth.caller import check_kind, tenant_of
from coatcheck.http.auth.readers import may_manage, may_read
from coatcheck.http.endpoint import JSON
from coatcheck.http.jobs.views import dumps
from coatcheck.http.request.models import RequestModel, parse_time, read_model
from coatcheck.http.request.query import upper_bound, write_cursor
from coatcheck.model.access import Scope
from coatcheck.model.state import State
from coatcheck.store.base import JobFilter

log = logging.getLogger(__name__)


class _Which(RequestModel):
    kind: str | None = None
    queue: str | None = None
    labels: dict[str, str] = Field(default_factory=dict, max_length=LABELS_AT_MOST)
    created_after: Annotated[int | None, BeforeValidator(parse_time)] = None
    created_before: Annotated[int | None, BeforeValidator(parse_time)] = None
    limit: Annotated[int, Field(ge=1, le=MAX_JOBS)] = MAX_JOBS
    cursor: str | None = None
    dry_run: bool = False

    def filter_for(self, request: Request, state: str) -> JobFilter:
        """Return which jobs are meant."""
        return JobFilter(
            tenant_of(request),
            state=State(state),
            kind=self.kind,
            queue=self.queue,
            labels=tuple(self.labels.items()),
            created_after=self.created_after,
            before=upper_bound(self.cursor, self.created_before),
            limit=self.limit,
        )


class ResumeRequest(_Which):
    """Which jobs to resume, newest first, how many, and whether only to count them."""

    state: Literal["failed", "cancelled"] = "failed"


class CancelRequest(_Which):
    """Which jobs to cancel, newest first, how many, and whether only to count them."""

    state: Literal["queued", "running", "waiting"]


class DeleteRequest(_Which):
    """Which jobs to delete, newest first, how many, and whether only to count them."""

    state: Literal["succeeded", "failed", "cancelled"]


async def resume_jobs(request: Request) -> Response:
    """Resume all jobs that a filter finds, up to 1,000 a call: `next_cursor` leads to the others.
    With `dry_run` they are only counted.
    """
    engine: Engine = request.app.state.engine
    asked = await read_model(request, ResumeRequest)
    check_kind(request, Scope.WRITE, asked.kind)
    which = asked.filter_for(request, asked.state)
    only = partial(may_read, request)
    done = await engine.resume_all(which, dry_run=asked.dry_run, only=only)
    return _answer("resumed jobs", asked, done)


async def cancel_jobs(request: Request) -> Response:
    """Cancel all jobs that a filter finds, up to 1,000 a call: `next_cursor` leads to the others.
    Of those that run, the handlers are told. With `dry_run` they are only counted.
    """
    engine: Engine = request.app.state.engine
    asked = await read_model(request, CancelRequest)
    check_kind(request, Scope.CANCEL, asked.kind)
    which = asked.filter_for(request, asked.state)
    only = partial(may_manage, request)
    done = await engine.cancel_all(which, dry_run=asked.dry_run, only=only)
    return _answer("cancelled jobs", asked, done)


async def delete_jobs(request: Request) -> Response:
    """Delete all jobs that a filter finds, up to 1,000 a call: `next_cursor` leads to the others.
    With `dry_run` they are only counted.
    """
    engine: Engine = request.app.state.engine
    asked = await read_model(request, DeleteRequest)
    check_kind(request, Scope.WRITE, asked.kind)
    which = asked.filter_for(request, asked.state)
    only = partial(may_manage, request)
    done = await engine.delete_all(which, dry_run=asked.dry_run, only=only)
    return _answer("deleted jobs", asked, done)


def _answer(what: str, asked: _Which, done: BulkResult) -> Response:
    if not asked.dry_run:
        log.info(what, extra={"jobs": done.jobs})
    more = None if done.last is None else write_cursor(done.last)
    answer = {"jobs": done.jobs, "dry_run": asked.dry_run, "next_cursor": more}
    return Response(dumps(answer), media_type=JSON)
