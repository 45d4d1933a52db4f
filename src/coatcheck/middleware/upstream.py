"""The wrapped app as the upstream of relayed calls.

What a stored call has not but an app can see of its caller (the host it was asked for by, the
client's address, where the app is mounted, who `authorize` said it was) is kept beside it, and put
back into the scope.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict

from coatcheck.middleware.app_call import AppCall, AppFailed, ASGIApp, Message, Scope
from coatcheck.middleware.authorize import Identity
from coatcheck.middleware.context import EndpointContext
from coatcheck.middleware.marks import REPLAY
from coatcheck.model.internal import Internal
from coatcheck.relay.call import ResponseHead, StoredCall
from coatcheck.relay.headers import Pairs, raw_of
from coatcheck.relay.upstream import (
    CallBroken,
    TargetUnreachable,
    UpstreamRequest,
    UpstreamResponse,
)

log = logging.getLogger(__name__)

_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})

Address = tuple[str, int | None]


class ScopeDetails(BaseModel):
    """What only the scope of a request says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = ""
    scheme: str = "http"
    http_version: str = "1.1"
    root_path: str = ""
    client: Address | None = None
    server: Address | None = None
    identity: dict[str, Any] = {}


class WrappedCall(StoredCall):
    """A call of a wrapped app, as the input of a job."""

    seen: Internal[ScopeDetails]


class CallJob(NamedTuple):
    """The job that a call is made for."""

    context: EndpointContext
    seen: ScopeDetails


# In the task of its handler.
made_for: ContextVar[CallJob] = ContextVar("coatcheck_made_for")


class AppServer(NamedTuple):
    """Where the app runs: on this loop, with the state its lifespan made."""

    app: ASGIApp
    loop: asyncio.AbstractEventLoop
    state: Mapping[str, Any]


def with_what_was_seen(call: StoredCall, scope: Scope, identity: Identity | None) -> WrappedCall:
    """Return a stored call with what only the scope of its request says."""
    host = next(
        (value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), ""
    )
    seen = ScopeDetails(
        host=host,
        scheme=scope.get("scheme", "http"),
        http_version=scope.get("http_version", "1.1"),
        root_path=scope.get("root_path", ""),
        client=scope.get("client"),
        server=scope.get("server"),
        identity=dict(identity or {}),
    )
    return WrappedCall(**dict(call), seen=seen)


class AppUpstream:
    """Calls the wrapped app, on the server's loop."""

    def __init__(self) -> None:
        self.server: AppServer | None = None  # set while there is one

    @contextlib.asynccontextmanager
    async def call(
        self, call: UpstreamRequest, body: AsyncIterator[bytes] | None
    ) -> AsyncIterator[UpstreamResponse]:
        """Make a call, and give its answer."""
        server = self.server
        assert server is not None, "the worker runs only while the app does"
        if server.loop.is_closed():
            raise TargetUnreachable("the app's server has ended")
        context, seen = made_for.get()
        scope = _scope_of(call, seen, server)
        scope[REPLAY] = context
        async with AppCall(body or _nothing()).made(server.app, scope, server.loop) as made:
            messages = made.messages()
            try:
                head = await _head(messages)
            except AppFailed as error:
                # As its server would answer.
                log.error("the app raised, and gave no answer", exc_info=error.__cause__)
                head = ResponseHead(500, [("content-type", "text/plain; charset=utf-8")])
                yield UpstreamResponse(head, _once(b"Internal AppServer Error"))
            else:
                yield UpstreamResponse(head, _chunks(messages))


def _scope_of(call: UpstreamRequest, seen: ScopeDetails, server: AppServer) -> Scope:
    headers: Pairs = list(call.headers)
    if seen.host:
        headers.insert(0, ("host", seen.host))
    if call.size or call.method in _WITH_BODY:
        headers.append(("content-length", str(call.size)))
    path, _, query = call.path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": seen.http_version,
        "method": call.method,
        "scheme": seen.scheme,
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "root_path": seen.root_path,
        "headers": raw_of(headers),
        "client": seen.client,
        "server": seen.server,
        "state": {**server.state, **seen.identity},
        "extensions": {},
    }


async def _head(messages: AsyncIterator[Message]) -> ResponseHead:
    async for message in messages:
        if message["type"] == "http.response.start":
            pairs = [
                (bytes(name).decode("latin-1").lower(), bytes(value).decode("latin-1"))
                for name, value in message.get("headers", ())
            ]
            return ResponseHead(message["status"], pairs)
    raise AppFailed("the app gave a body without a head")


async def _chunks(messages: AsyncIterator[Message]) -> AsyncIterator[bytes]:
    try:
        async for message in messages:
            if message["type"] == "http.response.body" and message.get("body"):
                yield bytes(message["body"])
    except AppFailed as error:
        raise CallBroken("the app raised in the middle of its answer") from error.__cause__


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield
