"""Authorize callers by running a FastAPI app's middleware and dependencies without the endpoint.

The developer opts in with `authorize="fastapi-dependencies"`. A *probe* is a call of the app with
the caller's headers and body, through all of the app's middleware. Its dependencies run. If they
and the parameters are satisfied, the probe stops before the endpoint: the endpoint was *reached*.
Dependencies with `yield` see an exception, as for a call that failed, and roll back. If the app
responds before that (401, 403, 404, 422, ...), the caller gets that response. The request body is
read and stored when the app first reads it, so a middleware that rejects a caller does so before
anything is stored.

**What a probe proves.** An endpoint that gets nothing of the caller (no `Request`, header or
cookie, nor a dependency's value made of one) cannot check the caller itself: a caller who reaches
it may run it. An endpoint that does get something might reject the caller in its body, where a
probe does not go. For such an endpoint the app must be seen to check credentials earlier: the probe
is repeated with noise in place of one of the caller's credentials. If that is answered with 401 or
403, a valid credential was needed, and the caller has it. The header's name is remembered for the
endpoint. If every made-up credential reaches the endpoint, or the caller sent none, authorization
is unknown, and the developer has to choose `authorize=` a hook, or "none".

**How a probe stops.** Nothing of FastAPI is patched. `route.app`, the ASGI app behind a route, is
wrapped on the routes of this app, as Starlette wraps it for a route's own middleware. An ordinary
call passes through the wrapper. A probe goes to a twin of the route: a copy whose endpoint only
records that it was reached. `check` tries this on a small app at startup, so a FastAPI release
that works differently is noticed before a request is.
"""

from __future__ import annotations

import asyncio
import copy
import secrets
from collections.abc import AsyncIterator, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from coatcheck.errors import ConfigurationError
from coatcheck.middleware.app_call import (
    PROBE,
    ASGIApp,
    Message,
    Receive,
    Scope,
    Send,
    target_app,
)
from coatcheck.middleware.authorize import AuthorizationMissing, Authorized, Body, Rejected
from coatcheck.relay.headers import is_credential

_REJECTED_STATUSES = (401, 403)
# How deep FastAPI may be wrapped in other ASGI middleware.
_MAX_WRAPPERS = 20
# What a route reads its input with. A route of an included router has its own values for these.
_INPUT_FIELDS = (
    *("body_field", "dependency_overrides_provider"),
    *("strict_content_type", "_embed_body_fields"),
)


class _Probe:
    """One probe: whether it reached an endpoint, and the app's response if it did not."""

    def __init__(self, body: Body, send: Send | None) -> None:
        self._pieces: AsyncIterator[bytes] | None = None
        self._body = body
        self._send = send
        self._body_ended = False
        self.endpoint: Any = None  # FastAPI's `Dependant` of the endpoint that was reached
        self.status = 0
        self.body_error: Exception | None = None

    async def receive(self) -> Message:
        if self._body_ended:
            await asyncio.Event().wait()  # the caller stays connected; the waiter is cancelled
        if self._pieces is None:
            self._pieces = self._body()
        try:
            piece = await anext(self._pieces, None)
        except Exception as error:
            self.body_error = error
            raise
        self._body_ended = piece is None
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    async def send(self, message: Message) -> None:
        if self.endpoint is not None or self.body_error is not None:
            return  # the app's rendering of our own exception
        if message["type"] == "http.response.start":
            self.status = message["status"]
        if self._send is not None:
            await self._send(message)


_current: ContextVar[_Probe] = ContextVar("coatcheck_probe")


class _ProbedRoute:
    """The ASGI app of a route, wrapped so that a probe stops before the endpoint."""

    def __init__(self, route: Any, context: Any) -> None:
        self._app: ASGIApp = context.app
        self._twin = _twin_app(route, context)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the route, or its twin for a probe."""
        probe = scope.get(PROBE)
        if probe is None:
            await self._app(scope, receive, send)
            return
        token = _current.set(probe)
        try:
            await self._twin(scope, receive, send)
        finally:
            _current.reset(token)


def _twin_app(route: Any, context: Any) -> ASGIApp:
    """Build the app of a copy of a route whose endpoint does not run. `context` holds the route's
    dependencies: it is the route itself, or its place in a router that includes it.
    """
    from fastapi import routing  # noqa: PLC0415 - the app's dependency, not ours
    from starlette.exceptions import HTTPException  # noqa: PLC0415
    from starlette.responses import JSONResponse  # noqa: PLC0415

    dependant = context.dependant

    async def stop(**_values: Any) -> None:
        _current.get().endpoint = dependant
        raise HTTPException(204)

    twin: Any = copy.copy(route)
    for name in _INPUT_FIELDS:
        if hasattr(context, name):
            setattr(twin, name, getattr(context, name))
    twin.dependant = replace(dependant, call=stop)
    # `stop` returns nothing: the twin neither streams nor validates a response.
    twin.response_class, twin.response_field = JSONResponse, None
    twin.stream_item_field, twin.is_json_stream = None, False
    app: ASGIApp = routing.request_response(twin.get_route_handler())
    return app


class FastApiAuthorizer:
    """Authorizes callers by probes of a FastAPI app."""

    def __init__(self, app: ASGIApp) -> None:
        router = _find_router(app)
        if router is None:
            raise ConfigurationError(
                'authorize="fastapi-dependencies" needs a FastAPI app; for another app, pass '
                'authorize=your_hook, or authorize="none" if its endpoints are public'
            )
        self._app = app
        self._router = router
        # For each endpoint, the credential headers that the app checks before it.
        self._checked: dict[Any, set[bytes]] = {}

    async def check(self) -> None:
        """Probe a small app; raises ConfigurationError."""
        await check_fastapi()

    async def authorize(self, scope: Scope, body: Body, send: Send) -> Authorized | Rejected:
        """Authorize a caller; a rejection by the app is sent to the caller."""
        if not self._reaches_api_route(scope):
            raise _missing(scope, "is not a FastAPI route")
        probe = await self._probe(scope, scope["headers"], body, send)
        if probe.endpoint is None:
            return Rejected()
        if _gets_caller(probe.endpoint):
            await self._check_credentials(scope, body, probe.endpoint.call)
        return Authorized()

    async def identify(self, scope: Scope) -> Authorized | Rejected:  # noqa: ARG002
        """Return no identity: the credential itself tells who owns a job."""
        return Authorized()

    async def _check_credentials(self, scope: Scope, body: Body, endpoint: Any) -> None:
        checked = self._checked.setdefault(endpoint, set())
        names = {name for name, _ in scope["headers"] if is_credential(name.decode("latin-1"))}
        if names & checked:
            return
        for credential in sorted(names):
            headers = [
                (name, _noise_like(name, value) if name == credential else value)
                for name, value in scope["headers"]
            ]
            probe = await self._probe(scope, headers, body, None)
            if probe.endpoint is None and probe.status in _REJECTED_STATUSES:
                checked.add(credential)
                return
        which = "made-up credentials" if names else "callers without credentials"
        raise _missing(scope, f"lets {which} reach the endpoint")

    async def _probe(
        self, scope: Scope, headers: Iterable[tuple[bytes, bytes]], body: Body, send: Send | None
    ) -> _Probe:
        probe = _Probe(body, send)
        try:
            await target_app(scope, self._app)(
                _probe_scope(scope, headers, probe), probe.receive, probe.send
            )
        except Exception:
            if probe.endpoint is None and probe.body_error is None and send is not None:
                raise  # as the app would without the middleware
        if probe.body_error is not None:
            raise probe.body_error
        return probe

    def _reaches_api_route(self, scope: Scope) -> bool:
        """Return whether a probe of this request stops before the endpoint. It does so if no route
        matches, too: then the app responds itself.
        """
        from fastapi import routing  # noqa: PLC0415 - the app's dependency, not ours

        path = scope["path"].removeprefix(scope.get("root_path", ""))
        selected = None
        for route, context in self._routes():
            if isinstance(route, routing.APIRoute) and not isinstance(context.app, _ProbedRoute):
                context.app = _ProbedRoute(route, context)
            pattern, methods = (getattr(context, name, None) for name in ("path_regex", "methods"))
            matches = pattern is not None and pattern.match(path)
            if selected is None and matches and (methods is None or scope["method"] in methods):
                selected = route
        return selected is None or isinstance(selected, routing.APIRoute)

    def _routes(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over the routes, each with the object that holds its path and its app."""
        from fastapi import routing  # noqa: PLC0415

        routes = list(self._router.routes)
        if not hasattr(routing, "iter_route_contexts"):
            yield from ((route, route) for route in routes)
            return
        for each in routing.iter_route_contexts(routes):
            yield each.original_route, each._effective_route


def _missing(scope: Scope, why: str) -> AuthorizationMissing:
    return AuthorizationMissing(
        f"{scope['method']} {scope['path']} {why}, so Coatcheck cannot tell who may call it: pass "
        'Coatcheck(..., authorize=your_hook), or authorize="none" if it is public'
    )


def _probe_scope(scope: Scope, headers: Iterable[tuple[bytes, bytes]], probe: _Probe) -> Scope:
    copied = {**scope, "headers": list(headers), PROBE: probe}
    if "state" in scope:
        copied["state"] = dict(scope["state"])
    return copied


def _noise_like(name: bytes, value: bytes) -> bytes:
    if name == b"cookie":
        names = [each.partition(b"=")[0] for each in value.split(b";")]
        return b";".join(each + b"=" + secrets.token_hex(16).encode() for each in names)
    scheme, space, _ = value.partition(b" ")
    noise = secrets.token_hex(16).encode()
    return scheme + space + noise if space else noise


def _gets_caller(dependant: Any) -> bool:
    """Return whether an endpoint, or a dependency, could check the caller: by itself, by a
    decorator around it, or by values of the dependencies it uses.
    """
    return bool(
        dependant.request_param_name
        or dependant.http_connection_param_name
        or dependant.header_params
        or dependant.cookie_params
        or hasattr(dependant.call, "__wrapped__")
        or any(_gets_caller(each) for each in dependant.dependencies if each.name)
    )


def _find_router(app: Any) -> Any:
    """Return the FastAPI app or router inside any ASGI middleware around it; None if there is
    none.
    """
    try:
        from fastapi import APIRouter, FastAPI  # noqa: PLC0415 - the app's dependency, not ours
    except ImportError:
        return None
    for _ in range(_MAX_WRAPPERS):
        if isinstance(app, (FastAPI, APIRouter)):
            return app
        app = getattr(app, "app", None)
    return None


async def check_fastapi() -> None:
    """Probe a small app; raises ConfigurationError if this FastAPI runs the endpoint."""
    from fastapi import APIRouter, FastAPI  # noqa: PLC0415

    app, router = FastAPI(openapi_url=None), APIRouter()
    ran = False

    @app.post("/direct")
    @router.post("/included")
    def endpoint() -> None:
        nonlocal ran
        ran = True

    app.include_router(router)

    async def no_body() -> AsyncIterator[bytes]:
        return
        yield

    async def discard(message: Message) -> None:
        """Discard a response."""

    scope: dict[str, Any] = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1"}
    scope |= {"method": "POST", "root_path": "", "scheme": "http", "query_string": b""}
    scope |= {"headers": [], "client": None, "server": None}
    authorizer = FastApiAuthorizer(app)
    for path in ("/direct", "/included"):
        request = {**scope, "path": path, "raw_path": path.encode()}
        verdict = await authorizer.authorize(request, no_body, discard)
        if ran or not isinstance(verdict, Authorized):
            raise ConfigurationError(
                "the installed FastAPI does not support authorize="
                '"fastapi-dependencies": pass authorize=your_hook'
            )
