"""Is it alive, can it work: for load balancers and orchestrators."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from coatcheck.engine.engine import Engine
from coatcheck.http.problem import problem

_ELSEWHERE = {"Retry-After": "5"}


async def healthz(_request: Request) -> Response:
    """Answer at all: this process lives."""
    return JSONResponse({"status": "ok"})


async def readyz(request: Request) -> Response:
    """Answer 200 when jobs can be taken in: the store is migrated and takes a write; else 503."""
    engine: Engine = request.app.state.engine
    await engine.store.ping()
    if engine.stopping:
        return problem(503, "stopping", "this server is about to stop", headers=_ELSEWHERE)
    return JSONResponse({"status": "ready"})
