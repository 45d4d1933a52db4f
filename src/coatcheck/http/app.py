"""The ASGI application: routes, middleware, errors. Whoever runs it opens the engine first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from coatcheck.engine.engine import Engine
from coatcheck.errors import CoatcheckError
from coatcheck.http.caller import authorize, is_authorized
from coatcheck.http.checks import check_request
from coatcheck.http.door import Door
from coatcheck.http.endpoint import Endpoint, Handler, OpensTo
from coatcheck.http.jobs import submit_job
from coatcheck.http.openapi import openapi
from coatcheck.http.problem import answer_error
from coatcheck.http.routes import ENDPOINTS

# What pages of other origins may read beside the body.
EXPOSED = (
    *("Location", "Retry-After", "ETag", "Preference-Applied", "Idempotency-Replayed"),
    *("RateLimit", "RateLimit-Policy", "X-Correlation-Id"),
)


def create_http_app(
    engine: Engine, cors_origins: Sequence[str] = (), *, pages: bool = True
) -> Starlette:
    """Build the application over an engine; pages of the origins named may ask it. Without `pages`
    it has none of its own.
    """
    app = Starlette(
        routes=_routes([each for each in ENDPOINTS if pages or not each.hidden]),
        middleware=[*_cors(cors_origins), _door(engine)],
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


def _door(engine: Engine) -> Middleware:
    open_paths = frozenset(
        endpoint.path for endpoint in ENDPOINTS if endpoint.opens_to is OpensTo.EVERYBODY
    )
    shortcuts = _shortcuts(ENDPOINTS)
    return Middleware(Door, keeper=engine.doorkeeper, shortcuts=shortcuts, open_paths=open_paths)


def _cors(origins: Sequence[str]) -> list[Middleware]:
    if not origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["*"],
            expose_headers=EXPOSED,
            max_age=600,
        )
    ]


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

    scopes = {method: endpoint.scope for method, endpoint in endpoints.items()}

    async def answer(request: Request) -> Response:
        endpoint = endpoints[request.method]
        check_request(request, endpoint)
        if not is_authorized(request, endpoint, scopes[request.method]):
            await authorize(request, endpoint)
        return await endpoint.handler(request)

    return answer
