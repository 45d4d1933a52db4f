"""Bulk operations: resume, cancel or delete every job that matches a filter.

Each request handles up to 1,000 jobs, newest first; `next_cursor` continues. With `dry_run` jobs
are only counted, so that a person can confirm. Jobs that the caller may not read are skipped
(auth/readers.py).
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Annotated, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.documents.jobs import BulkResultDocument
from coatcheck.engine.bulk import MAX_JOBS, BulkResult
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import LABELS_AT_MOST
from coatcheck.http.auth.caller import check_kind, tenant_of
from coatcheck.http.auth.readers import may_manage, may_read
from coatcheck.http.endpoint import (
    JSON,
    Endpoint,
    EndpointBody,
    EndpointResponse,
    Handler,
    KindRule,
    as_json,
    ref,
)
from coatcheck.http.jobs.views import dumps
from coatcheck.http.request.models import OptionalTime, RequestModel, read_model
from coatcheck.http.request.query import upper_bound, write_cursor
from coatcheck.model.access import Scope
from coatcheck.model.state import State
from coatcheck.store.base import JobFilter

log = logging.getLogger(__name__)


class BulkRequest(RequestModel):
    """The filter of a bulk operation."""

    kind: str | None = None
    queue: str | None = None
    labels: dict[str, str] = Field(default_factory=dict, max_length=LABELS_AT_MOST)
    created_after: OptionalTime = None
    created_before: OptionalTime = None
    limit: Annotated[int, Field(ge=1, le=MAX_JOBS)] = MAX_JOBS
    cursor: str | None = None
    dry_run: bool = False

    def filter_for(self, request: Request, state: str) -> JobFilter:
        """Return the filter for the store."""
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


class ResumeRequest(BulkRequest):
    """The jobs to resume, newest first."""

    state: Literal["failed", "cancelled"] = "failed"


class CancelRequest(BulkRequest):
    """The jobs to cancel, newest first."""

    state: Literal["queued", "running", "waiting"]


class DeleteRequest(BulkRequest):
    """The jobs to delete, newest first."""

    state: Literal["succeeded", "failed", "cancelled"]


async def resume_jobs(request: Request) -> Response:
    """Resume the jobs that match a filter, up to 1,000 per request; `next_cursor` continues. With
    `dry_run` they are only counted.
    """
    engine: Engine = request.app.state.engine
    wanted = await read_model(request, ResumeRequest)
    check_kind(request, Scope.WRITE, wanted.kind)
    which = wanted.filter_for(request, wanted.state)
    only = partial(may_read, request)
    done = await engine.resume_all(which, dry_run=wanted.dry_run, only=only)
    return _response("jobs resumed", wanted, done)


async def cancel_jobs(request: Request) -> Response:
    """Cancel the jobs that match a filter, up to 1,000 per request; `next_cursor` continues.
    Handlers of running jobs are interrupted. With `dry_run` the jobs are only counted.
    """
    engine: Engine = request.app.state.engine
    wanted = await read_model(request, CancelRequest)
    check_kind(request, Scope.CANCEL, wanted.kind)
    which = wanted.filter_for(request, wanted.state)
    only = partial(may_manage, request)
    done = await engine.cancel_all(which, dry_run=wanted.dry_run, only=only)
    return _response("jobs cancelled", wanted, done)


async def delete_jobs(request: Request) -> Response:
    """Delete the jobs that match a filter, up to 1,000 per request; `next_cursor` continues. With
    `dry_run` they are only counted.
    """
    engine: Engine = request.app.state.engine
    wanted = await read_model(request, DeleteRequest)
    check_kind(request, Scope.WRITE, wanted.kind)
    which = wanted.filter_for(request, wanted.state)
    only = partial(may_manage, request)
    done = await engine.delete_all(which, dry_run=wanted.dry_run, only=only)
    return _response("jobs deleted", wanted, done)


def _response(event: str, wanted: BulkRequest, done: BulkResult) -> Response:
    if not wanted.dry_run:
        log.info(event, extra={"jobs": done.jobs})
    more = None if done.last is None else write_cursor(done.last)
    document: BulkResultDocument = {
        "jobs": done.jobs,
        "dry_run": wanted.dry_run,
        "next_cursor": more,
    }
    return Response(dumps(document), media_type=JSON)


def _endpoint(path: str, handler: Handler, verb: str, needs: Scope) -> Endpoint:
    return Endpoint(
        "POST",
        path,
        handler,
        f"{verb}Jobs",
        f"{verb.capitalize()} the jobs that match a filter",
        "steering",
        {200: EndpointResponse("The number of jobs.", as_json(ref("DoneToJobs")))},
        error_statuses=(408, 413, 415, 422),
        body=EndpointBody("The filter.", as_json(ref(f"{verb.capitalize()}Request"))),
        needs=needs,
        kind=KindRule.REQUEST,
    )


BULK: tuple[Endpoint, ...] = (
    _endpoint("/v1/resumptions", resume_jobs, "resume", Scope.WRITE),
    _endpoint("/v1/cancellations", cancel_jobs, "cancel", Scope.CANCEL),
    _endpoint("/v1/deletions", delete_jobs, "delete", Scope.WRITE),
)
