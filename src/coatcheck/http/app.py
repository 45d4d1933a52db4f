"""The ASGI application: routes, middleware and error handlers, for an open engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
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
from coatcheck.errors import CoatcheckError, ConfigurationError
from coatcheck.http.auth.caller import authorize
from coatcheck.http.auth.middleware import AccessMiddleware, OpenRequestLimit, PublicEndpoints
from coatcheck.http.auth.miss_limit import MissLimiter
from coatcheck.http.auth.readers import check_named_job
from coatcheck.http.endpoint import Access, Endpoint, Handler
from coatcheck.http.errors import ErrorFormats, ErrorFormatter, handle_error
from coatcheck.http.jobs.fast_submit import is_authorized
from coatcheck.http.jobs.handlers import submit_job
from coatcheck.http.openapi import openapi
from coatcheck.http.request.negotiation import check_request
from coatcheck.http.routes import ENDPOINTS
from coatcheck.http.surfaces import jobs
from coatcheck.http.surfaces.base import Surface

# The response headers that pages of other origins may read.
EXPOSED = (
    *("Location", "Retry-After", "ETag", "Preference-Applied", "Idempotency-Replayed"),
    *("RateLimit", "RateLimit-Policy", "X-Correlation-Id"),
)


def create_http_app(
    engine: Engine,
    cors_origins: Sequence[str] = (),
    *,
    pages: bool = True,
    has_worker: bool = False,
    surfaces: Iterable[Surface] = (),
    cockpit: Iterable[Endpoint] = (),
) -> Starlette:
    """Build the application for an engine, with the canonical API and surfaces.

    Pages of `cors_origins` may call the application. Without `pages` it serves no pages but those
    of the `cockpit`. `has_worker` says that a worker runs beside it, so that short work may be done
    here instead.
    """
    by_name = {surface.name: surface for surface in surfaces}
    endpoints = [*ENDPOINTS, *_surface_endpoints(by_name)]
    formats = _error_formats(by_name)
    origins = frozenset(cors_origins)
    endpoints = [each for each in endpoints if pages or not each.hidden]
    endpoints += cockpit
    app = Starlette(
        routes=_routes(endpoints, MissLimiter(engine.clock)),
        middleware=[
            *_cors(cors_origins),
            _access_middleware(engine, endpoints, formats, origins),
            Middleware(OpenRequestLimit, open_requests=engine.open_requests),
        ],
        exception_handlers={
            CoatcheckError: handle_error,
            HTTPException: handle_error,
        },
    )
    app.router.redirect_slashes = False  # a path with a slash at its end is another path: 404
    app.state.engine = engine
    app.state.has_worker = has_worker
    app.state.surfaces = by_name
    app.state.error_formats = formats
    app.state.origins = origins

    @cache
    def description() -> dict[str, Any]:
        return openapi(endpoints, engine.kinds)

    app.state.openapi = description
    return app


def _surface_endpoints(surfaces: Mapping[str, Surface]) -> list[Endpoint]:
    found = [each for surface in surfaces.values() for each in surface.endpoints]
    showing = {name: surface for name, surface in surfaces.items() if surface.shows_jobs}
    if showing:
        found.append(jobs.show_job_endpoint(showing))
    return found


def _error_formats(surfaces: Mapping[str, Surface]) -> ErrorFormats:
    by_prefix: dict[str, ErrorFormatter] = {
        prefix: surface.format_error for surface in surfaces.values() for prefix in surface.prefixes
    }
    if any(surface.shows_jobs for surface in surfaces.values()):
        by_prefix[jobs.PREFIX] = jobs.format_error
    return ErrorFormats(by_prefix)


def _access_middleware(
    engine: Engine, endpoints: Iterable[Endpoint], formats: ErrorFormats, origins: frozenset[str]
) -> Middleware:
    return Middleware(
        AccessMiddleware,
        authenticator=engine.authenticator,
        fast_handlers=_fast_handlers(endpoints),
        public=PublicEndpoints(
            (each.method, each.path) for each in endpoints if each.access is Access.PUBLIC
        ),
        formats=formats,
        origins=origins,
    )


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


def _routes(endpoints: Iterable[Endpoint], limiter: MissLimiter) -> list[Route]:
    """Build one route for each path, so that 405 lists all methods of the path in `Allow`."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        endpoint.check_declared()
        if endpoint.is_capability:
            endpoint = replace(endpoint, handler=limiter.wrap(endpoint.handler))  # noqa: PLW2901
        methods = by_path.setdefault(endpoint.path, {})
        if endpoint.method in methods:
            raise ConfigurationError(f"{endpoint.method} {endpoint.path} is declared twice")
        methods[endpoint.method] = endpoint
    return [
        Route(path, _by_method(found), methods=list(found), name=path)
        for path, found in by_path.items()
    ]


def _fast_handlers(endpoints: Iterable[Endpoint]) -> dict[tuple[str, str], Handler]:
    return {
        (endpoint.method, endpoint.path): _by_method({endpoint.method: endpoint})
        for endpoint in endpoints
        if endpoint.handler is submit_job
    }


def _by_method(endpoints: dict[str, Endpoint]) -> Handler:
    if "GET" in endpoints:
        endpoints = {**endpoints, "HEAD": endpoints["GET"]}

    scopes = {method: endpoint.scope for method, endpoint in endpoints.items()}
    names_a_job = any(endpoint.names_a_job for endpoint in endpoints.values())

    async def handle(request: Request) -> Response:
        endpoint = endpoints[request.method]
        check_request(request, endpoint)
        if not is_authorized(request, endpoint, scopes[request.method]):
            await authorize(request, endpoint)
        if names_a_job:
            await check_named_job(request, endpoint)
        return await endpoint.handler(request)

    return handle
