"""Is it alive, can it work: for load balancers and orchestrators."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from coatcheck.engine.engine import Engine
from coatcheck.http.errors import problem_response

if TYPE_CHECKING:  # which is made of calls, as this is
    from coatcheck.http.surfaces.base import Surface

_ELSEWHERE = {"Retry-After": "5"}


async def healthz(request: Request) -> Response:
    """Answer at all: this process lives. What surfaces in use have to say is said beside it."""
    surfaces: Mapping[str, Surface] = request.app.state.surfaces
    said = await asyncio.gather(*(surface.health() for surface in surfaces.values()))
    return JSONResponse({"status": "ok"} | {name: each[name] for each in said for name in each})


async def readyz(request: Request) -> Response:
    """Answer 200 when jobs can be taken in: the store is migrated and takes a write; else 503."""
    engine: Engine = request.app.state.engine
    await engine.store.ping()
    if engine.stopping:
        return problem_response(503, "stopping", "this server is about to stop", headers=_ELSEWHERE)
    return JSONResponse({"status": "ready"})
