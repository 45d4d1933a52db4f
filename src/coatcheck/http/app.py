"""The ASGI application: routes, middleware, errors. Whoever runs it opens the engine first."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from coatcheck.engine.engine import Engine
from coatcheck.errors import CoatcheckError
from coatcheck.http.checks import check_request
from coatcheck.http.door import Door
from coatcheck.http.endpoint import Endpoint, Handler
from coatcheck.http.jobs import submit_job
from coatcheck.http.openapi import openapi
from coatcheck.http.problem import answer_error
from coatcheck.http.routes import ENDPOINTS


def create_http_app(engine: Engine) -> Starlette:
    """Build the application over an engine."""
    app = Starlette(
        routes=_routes(ENDPOINTS),
        middleware=[Middleware(Door, shortcuts=_shortcuts(ENDPOINTS))],
        exception_handlers={
            CoatcheckError: answer_error,
            HTTPException: answer_error,
        },
    )
    app.router.redirect_slashes = False  # another address is another address: 404
    app.state.engine = engine

    @cache
    def description() -> dict[str, Any]:
        return openapi(ENDPOINTS, engine.kinds)

    app.state.openapi = description
    return app


def _routes(endpoints: Iterable[Endpoint]) -> list[Route]:
    """Make one route a path, so that a method it does not have is refused with all it has."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    return [
        Route(path, _by_method(found), methods=list(found), name=path)
        for path, found in by_path.items()
    ]


def _shortcuts(endpoints: Iterable[Endpoint]) -> dict[tuple[str, str], Handler]:
    return {
        (endpoint.method, endpoint.path): _by_method({endpoint.method: endpoint})
        for endpoint in endpoints
        if endpoint.handler is submit_job
    }


def _by_method(endpoints: dict[str, Endpoint]) -> Handler:
    if "GET" in endpoints:
        endpoints = {**endpoints, "HEAD": endpoints["GET"]}

    async def answer(request: Request) -> Response:
        endpoint = endpoints[request.method]
        check_request(request, endpoint)
        return await endpoint.handler(request)

    return answer
