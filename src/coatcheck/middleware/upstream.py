"""The wrapped app as the upstream of relayed calls.

A stored call lacks some things that an app can see of its caller: the requested host, the client's
address, the mount path, the identity from `authorize`. They are stored beside the call and put back
into the scope.
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

from coatcheck.middleware.app_call import REPLAY, AppCall, AppFailed, ASGIApp, Message, Scope
from coatcheck.middleware.authorize import Identity
from coatcheck.middleware.context import EndpointContext
from coatcheck.model.internal import Internal
from coatcheck.relay.call import ResponseHead, StoredCall
from coatcheck.relay.headers import Pairs, encode_headers
from coatcheck.relay.upstream import (
    CallBroken,
    UpstreamRequest,
    UpstreamResponse,
    UpstreamUnreachable,
    one_chunk,
)

log = logging.getLogger(__name__)

_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})

Address = tuple[str, int | None]


class ScopeDetails(BaseModel):
    """The parts of a request's scope that a stored call does not hold."""

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
    """The job for which a call is made."""

    context: EndpointContext
    details: ScopeDetails


# Set in the task of the job's handler.
current_job: ContextVar[CallJob] = ContextVar("coatcheck_current_job")


class AppServer(NamedTuple):
    """The app, the loop it runs on, and the state of its lifespan."""

    app: ASGIApp
    loop: asyncio.AbstractEventLoop
    state: Mapping[str, Any]


def with_scope_details(call: StoredCall, scope: Scope, identity: Identity | None) -> WrappedCall:
    """Return a stored call with the details of its request's scope."""
    host = next(
        (value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), ""
    )
    details = ScopeDetails(
        host=host,
        scheme=scope.get("scheme", "http"),
        http_version=scope.get("http_version", "1.1"),
        root_path=scope.get("root_path", ""),
        client=scope.get("client"),
        server=scope.get("server"),
        identity=dict(identity or {}),
    )
    return WrappedCall(**dict(call), seen=details)


class AppUpstream:
    """Calls the wrapped app, on the server's loop."""

    def __init__(self) -> None:
        self.server: AppServer | None = None  # set at startup

    @contextlib.asynccontextmanager
    async def call(
        self, call: UpstreamRequest, body: AsyncIterator[bytes] | None
    ) -> AsyncIterator[UpstreamResponse]:
        """Call the app, and yield its response."""
        server = self.server
        assert server is not None, "the worker runs only while the app does"
        if server.loop.is_closed():
            raise UpstreamUnreachable("the app's server has ended")
        context, details = current_job.get()
        scope = _build_scope(call, details, server)
        scope[REPLAY] = context
        async with AppCall(body or _empty_body()).run(server.app, scope, server.loop) as app_call:
            messages = app_call.messages()
            try:
                head = await _read_head(messages)
            except AppFailed as error:
                # Respond as the app's server would.
                log.error("app raised before it responded", exc_info=error.__cause__)
                head = ResponseHead(500, [("content-type", "text/plain; charset=utf-8")])
                yield UpstreamResponse(head, one_chunk(b"Internal Server Error"))
            else:
                yield UpstreamResponse(head, _read_chunks(messages))


def _build_scope(call: UpstreamRequest, details: ScopeDetails, server: AppServer) -> Scope:
    headers: Pairs = list(call.headers)
    if details.host:
        headers.insert(0, ("host", details.host))
    if call.size or call.method in _WITH_BODY:
        headers.append(("content-length", str(call.size)))
    path, _, query = call.path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": details.http_version,
        "method": call.method,
        "scheme": details.scheme,
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "root_path": details.root_path,
        "headers": encode_headers(headers),
        "client": details.client,
        "server": details.server,
        "state": {**server.state, **details.identity},
        "extensions": {},
    }


async def _read_head(messages: AsyncIterator[Message]) -> ResponseHead:
    async for message in messages:
        if message["type"] == "http.response.start":
            pairs = [
                (bytes(name).decode("latin-1").lower(), bytes(value).decode("latin-1"))
                for name, value in message.get("headers", ())
            ]
            return ResponseHead(message["status"], pairs)
    raise AppFailed("the app sent a body without a head")


async def _read_chunks(messages: AsyncIterator[Message]) -> AsyncIterator[bytes]:
    try:
        async for message in messages:
            if message["type"] == "http.response.body" and message.get("body"):
                yield bytes(message["body"])
    except AppFailed as error:
        raise CallBroken("the app raised in the middle of its response") from error.__cause__


async def _empty_body() -> AsyncIterator[bytes]:
    return
    yield
