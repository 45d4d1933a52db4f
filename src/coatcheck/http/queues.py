"""The calls on queues: depth, pause, resume."""

from __future__ import annotations

import logging
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.clock import to_rfc3339
from coatcheck.engine.engine import Engine
from coatcheck.http.endpoint import JSON
from coatcheck.http.job_view import dumps
from coatcheck.model.names import NAME_RULE, is_name
from coatcheck.store.base import QueueStatus

log = logging.getLogger(__name__)


async def list_queues(request: Request) -> Response:
    """Answer with every queue that a kind uses, that holds jobs, or that is paused."""
    engine: Engine = request.app.state.engine
    queues = [_view(queue) for queue in await engine.queues()]
    return Response(dumps({"queues": queues}), media_type=JSON)


async def get_queue(request: Request) -> Response:
    """Answer with one queue."""
    engine: Engine = request.app.state.engine
    for queue in await engine.queues():
        if queue.name == request.path_params["queue"]:
            return Response(dumps(_view(queue)), media_type=JSON)
    raise HTTPException(404, "no kind uses this queue, and it holds no jobs")


async def pause_queue(request: Request) -> Response:
    """Stop claims from a queue; what runs goes on."""
    return await _set_paused(request, paused=True)


async def resume_queue(request: Request) -> Response:
    """Let a paused queue go on."""
    return await _set_paused(request, paused=False)


async def _set_paused(request: Request, *, paused: bool) -> Response:
    engine: Engine = request.app.state.engine
    name = request.path_params["queue"]
    if not is_name(name):
        raise HTTPException(400, f"this cannot be a queue's name: {NAME_RULE}")
    await (engine.pause_queue(name) if paused else engine.resume_queue(name))
    log.info("queue paused" if paused else "queue resumed", extra={"queue": name})
    found = {queue.name: queue for queue in await engine.queues()}
    empty = QueueStatus(name, paused, 0, 0, 0, None)
    return Response(dumps(_view(found.get(name, empty))), media_type=JSON)


def _view(queue: QueueStatus) -> dict[str, Any]:
    oldest = queue.oldest_ready
    return {
        "name": queue.name,
        "paused": queue.paused,
        "ready": queue.ready,
        "delayed": queue.delayed,
        "running": queue.running,
        "oldest_ready_at": None if oldest is None else to_rfc3339(oldest),
    }
