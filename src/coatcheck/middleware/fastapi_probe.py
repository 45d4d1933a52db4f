"""Asking a FastAPI app whether it would let a caller in, without running the endpoint.

The app is called as it would be, with the caller's headers and body, through all of its middleware.
Its dependencies run, and where they and the parameters are satisfied the call is stopped before the
endpoint: it was *reached*. Dependencies with `yield` see an exception, as of a call that failed,
and roll back. Where the app answers by itself before that (401, 403, 404, 422, ...), the caller
gets that answer. The body is read and stored when the app asks for it: a middleware that turns a
stranger away does so before that.

**What that proves.** An endpoint that is given nothing of the caller (no `Request`, header or
cookie, nor what a dependency made of one) cannot look for itself: who reaches it may run it. One
that is given something might refuse in its body, where a dry call does not come. It has to be shown
that the app looks before that: the call is made again with noise in place of one of the caller's
credentials. If that is turned away with 401 or 403, a valid one was needed, and the caller has it.
Which header it was is remembered for the endpoint. If every made-up credential reaches the
endpoint, or there was none to begin with, nobody can tell from outside, and the developer has to
say: `authorize=` a hook, or "none".

FastAPI has one function that every route calls when its dependencies are to be solved, by its name
in `fastapi.routing`. It is replaced by one that does the same, and stops dry calls; `check` tries
that on a small app, so that a FastAPI that has changed in this is noticed at start.
"""

from __future__ import annotations

import asyncio
import functools
import secrets
from collections.abc import AsyncIterator, Iterable
from contextvars import ContextVar
from typing import Any

from coatcheck.errors import ConfigurationError
from coatcheck.middleware.app_call import ASGIApp, Message, Scope, Send
from coatcheck.middleware.authorize import AuthorizationMissing, Authorized, Body, Rejected
from coatcheck.middleware.credentials import is_credential
from coatcheck.middleware.marks import DRY_CALL, target_of

# The function of `fastapi.routing` that is replaced.
_SOLVING = "solve_dependencies"
_TURNED_AWAY = (401, 403)


class _DryCall:
    """One dry call: whether it reached an endpoint, and what was answered where it did not."""

    def __init__(self, body: Body, send: Send | None) -> None:
        self._pieces: AsyncIterator[bytes] | None = None
        self._body = body
        self._send = send
        self._body_ended = False
        self.endpoint: Any = None  # FastAPI's description of it
        self.status = 0
        self.failed: Exception | None = None  # the body could not be taken in

    async def receive(self) -> Message:
        if self._body_ended:
            await asyncio.Event().wait()  # the caller stays; who waits for it to go is cancelled
        if self._pieces is None:
            self._pieces = self._body()
        try:
            piece = await anext(self._pieces, None)
        except Exception as error:
            self.failed = error
            raise
        self._body_ended = piece is None
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    async def send(self, message: Message) -> None:
        if self.endpoint is not None or self.failed is not None:
            return  # how it says that it was stopped, or what it makes of an error of ours
        if message["type"] == "http.response.start":
            self.status = message["status"]
        if self._send is not None:
            await self._send(message)


_current: ContextVar[_DryCall | None] = ContextVar("coatcheck_dry_call", default=None)


class FastApiAuthorizer:
    """Asks a FastAPI app by dry calls."""

    def __init__(self, app: ASGIApp) -> None:
        routes_of = _fastapi_in(app)
        if routes_of is None:
            raise ConfigurationError(
                "this app cannot be asked whether it lets a caller in (only FastAPI's can): say "
                'authorize=your_hook, or authorize="none" where its endpoints are open to all'
            )
        self._app = app
        self._routes_of = routes_of
        # Of each endpoint, the credentials that are looked at before it.
        self._looked_at: dict[Any, set[bytes]] = {}

    async def check(self) -> None:
        """Try it on a small app."""
        await check()

    async def ask(self, scope: Scope, body: Body, send: Send) -> Authorized | Rejected:
        """Ask whether the caller may come in; the app's own refusal is sent to them."""
        if not self._leads_to_an_api_route(scope):
            raise _unknown(scope, "is not one of FastAPI's own")
        call = await self._call(scope, scope["headers"], body, send)
        if call.endpoint is None:
            return Rejected()
        if _is_given_the_caller(call.endpoint):
            await self._check_credentials(scope, body, call.endpoint.call)
        return Authorized()

    async def recognise(self, scope: Scope) -> Authorized | Rejected:  # noqa: ARG002
        """Know nobody: what the caller brings has to be what it was."""
        return Authorized()

    async def _check_credentials(self, scope: Scope, body: Body, endpoint: Any) -> None:
        looked_at = self._looked_at.setdefault(endpoint, set())
        names = {name for name, _ in scope["headers"] if is_credential(name.decode("latin-1"))}
        if names & looked_at:
            return
        for credential in sorted(names):
            headers = [
                (name, _noise_like(name, value) if name == credential else value)
                for name, value in scope["headers"]
            ]
            call = await self._call(scope, headers, body, None)
            if call.endpoint is None and call.status in _TURNED_AWAY:
                looked_at.add(credential)
                return
        whom = "made-up credentials" if names else "strangers"
        raise _unknown(scope, f"lets {whom} come as far as the endpoint")

    async def _call(
        self, scope: Scope, headers: Iterable[tuple[bytes, bytes]], body: Body, send: Send | None
    ) -> _DryCall:
        call = _DryCall(body, send)
        token = _current.set(call)
        try:
            await target_of(scope, self._app)(_copied(scope, headers), call.receive, call.send)
        except Exception:
            if call.endpoint is None and call.failed is None and send is not None:
                raise  # as it would without us
        finally:
            _current.reset(token)
        if call.failed is not None:
            raise call.failed
        return call

    def _leads_to_an_api_route(self, scope: Scope) -> bool:
        """Tell whether the call can be stopped before an endpoint. There is none where no route
        fits: then the app says so itself.
        """
        from fastapi import routing  # noqa: PLC0415 - there, or the app would not be

        routes: Iterable[Any] = self._routes_of.routes
        if hasattr(routing, "iter_route_contexts"):
            routes = routing.iter_route_contexts(list(routes))
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        for route in routes:
            pattern, methods = getattr(route, "path_regex", None), getattr(route, "methods", None)
            if pattern is None or not pattern.match(path):
                continue
            if methods is None or scope["method"] in methods:
                own = getattr(route, "original_route", route)
                return isinstance(own, routing.APIRoute)
        return True


def _unknown(scope: Scope, why: str) -> AuthorizationMissing:
    return AuthorizationMissing(
        f"{scope['method']} {scope['path']} {why}, so Coatcheck cannot tell who may call it: say "
        'Coatcheck(..., authorize=your_hook), or authorize="none" where it is open to all'
    )


def _copied(scope: Scope, headers: Iterable[tuple[bytes, bytes]]) -> Scope:
    copied = {**scope, "headers": list(headers), DRY_CALL: True}
    if "state" in scope:
        copied["state"] = dict(scope["state"])
    return copied


def _noise_like(name: bytes, value: bytes) -> bytes:
    if name == b"cookie":
        pairs = [each.partition(b"=")[0] for each in value.split(b";")]
        return b";".join(pair + b"=" + secrets.token_hex(16).encode() for pair in pairs)
    scheme, space, _ = value.partition(b" ")
    noise = secrets.token_hex(16).encode()
    return scheme + space + noise if space else noise


def _is_given_the_caller(dependant: Any) -> bool:
    """Tell whether an endpoint, or a dependency, could look at who calls: by itself, by a decorator
    around it, or by what the dependencies it uses have found.
    """
    return bool(
        dependant.request_param_name
        or dependant.http_connection_param_name
        or dependant.header_params
        or dependant.cookie_params
        or hasattr(dependant.call, "__wrapped__")
        or any(_is_given_the_caller(each) for each in dependant.dependencies if each.name)
    )


def _fastapi_in(app: Any) -> Any:
    """Return the FastAPI app, or its router, in what may be ASGI middleware around it."""
    try:
        from fastapi import APIRouter, FastAPI  # noqa: PLC0415 - the app's part, not ours
    except ImportError:
        return None
    for _ in range(20):
        if isinstance(app, (FastAPI, APIRouter)):
            _stop_dry_calls()
            return app
        app = getattr(app, "app", None)
    return None


def _stop_dry_calls() -> None:
    """Have dry calls stopped before the endpoint, from now on and in every FastAPI app here."""
    from fastapi import routing  # noqa: PLC0415
    from starlette.exceptions import HTTPException  # noqa: PLC0415

    solve: Any = getattr(routing, _SOLVING)
    if hasattr(solve, "__stops_dry_calls__"):
        return

    @functools.wraps(solve)
    async def solve_or_stop(*arguments: Any, dependant: Any, **others: Any) -> Any:
        solved = await solve(*arguments, dependant=dependant, **others)
        call = _current.get()
        if call is not None and not solved.errors:
            call.endpoint = dependant
            raise HTTPException(204)
        return solved

    solve_or_stop.__stops_dry_calls__ = True  # type: ignore[attr-defined]
    setattr(routing, _SOLVING, solve_or_stop)


async def check() -> None:
    """Try a dry call on a small app; raises ConfigurationError where this FastAPI does not stop."""
    from fastapi import FastAPI  # noqa: PLC0415

    app = FastAPI(openapi_url=None)
    ran = False

    @app.post("/")
    def endpoint() -> None:
        nonlocal ran
        ran = True

    async def no_body() -> AsyncIterator[bytes]:
        return
        yield

    async def ignore(message: Message) -> None:
        """Take an answer that nobody reads."""

    scope: dict[str, Any] = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1"}
    scope |= {"method": "POST", "path": "/", "raw_path": b"/", "root_path": "", "scheme": "http"}
    scope |= {"query_string": b"", "headers": [], "client": None, "server": None}
    said = await FastApiAuthorizer(app).ask(scope, no_body, ignore)
    if ran or not isinstance(said, Authorized):
        raise ConfigurationError(
            "the FastAPI that is installed cannot be asked by dry calls: say authorize=your_hook"
        )
