"""The handlers of queues: depth, limit, pause and resume."""

from __future__ import annotations

import logging
from typing import Annotated

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.documents.server import QueueDocument, QueuePage
from coatcheck.engine.engine import Engine
from coatcheck.http.endpoint import JSON
from coatcheck.http.jobs.views import dumps, optional_time
from coatcheck.http.request.models import RequestModel, read_model
from coatcheck.http.request.query import read_cursor, read_number, write_cursor
from coatcheck.model.names import NAME_RULE, is_name
from coatcheck.store.base import QueueStatus

log = logging.getLogger(__name__)

MAX_QUEUE_PAGE = 1000


async def list_queues(request: Request) -> Response:
    """Return a page of the queues that a kind uses, that have jobs, or that are paused."""
    engine: Engine = request.app.state.engine
    query = request.query_params
    limit = read_number(query, "limit", MAX_QUEUE_PAGE, 1, MAX_QUEUE_PAGE)
    after = "" if (cursor := query.get("cursor")) is None else read_cursor(cursor, is_name)
    rest = [queue for queue in await engine.queues() if queue.name > after]
    more = write_cursor(rest[limit - 1].name) if len(rest) > limit else None
    queues = [_view(queue) for queue in rest[:limit]]
    page: QueuePage = {"queues": queues, "next_cursor": more}
    return Response(dumps(page), media_type=JSON)


async def get_queue(request: Request) -> Response:
    """Return a queue."""
    engine: Engine = request.app.state.engine
    for queue in await engine.queues():
        if queue.name == request.path_params["queue"]:
            return Response(dumps(_view(queue)), media_type=JSON)
    raise HTTPException(404, "there is no such queue: no kind uses it, and it has no jobs")


async def pause_queue(request: Request) -> Response:
    """Pause a queue. Its running jobs continue."""
    return await _set_paused(request, paused=True)


async def resume_queue(request: Request) -> Response:
    """Resume a paused queue."""
    return await _set_paused(request, paused=False)


class QueueRequest(RequestModel):
    """The limit of a queue."""

    # Required: a member omitted by mistake must not remove the limit.
    concurrency: Annotated[int, Field(ge=1, le=1_000_000)] | None


async def put_queue(request: Request) -> Response:
    """Limit how many jobs of a queue run at once, or remove the limit."""
    engine: Engine = request.app.state.engine
    name = _name(request)
    wanted = await read_model(request, QueueRequest)
    await engine.limit_queue(name, wanted.concurrency)
    log.info("queue limited", extra={"queue": name, "concurrency": wanted.concurrency})
    return await _response(engine, name)


async def _set_paused(request: Request, *, paused: bool) -> Response:
    engine: Engine = request.app.state.engine
    name = _name(request)
    await (engine.pause_queue(name) if paused else engine.resume_queue(name))
    log.info("queue paused" if paused else "queue resumed", extra={"queue": name})
    return await _response(engine, name)


def _name(request: Request) -> str:
    name: str = request.path_params["queue"]
    if not is_name(name):
        raise HTTPException(400, f"invalid queue name: {NAME_RULE}")
    return name


async def _response(engine: Engine, name: str) -> Response:
    found = {queue.name: queue for queue in await engine.queues()}
    empty = QueueStatus(name, False, 0, 0, 0, None)
    return Response(dumps(_view(found.get(name, empty))), media_type=JSON)


def _view(queue: QueueStatus) -> QueueDocument:
    return {
        "name": queue.name,
        "paused": queue.paused,
        "ready": queue.ready,
        "delayed": queue.delayed,
        "running": queue.running,
        "concurrency": queue.concurrency,
        "oldest_ready_at": optional_time(queue.oldest_ready),
    }
