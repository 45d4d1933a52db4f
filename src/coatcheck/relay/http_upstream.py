"""An upstream that is reached by HTTP/1.1.

Connections are reused only for calls that have no body and are safe to repeat. A server may close
an idle connection at the moment it is reused, and then it is unknown whether the server saw the
call. Any other call gets a connection of its own, so *unreachable* means that nothing was sent.
Bodies pass unchanged: nothing is decompressed, no redirect is followed, no cookie is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

import aiohttp
from yarl import URL

from coatcheck.relay.call import ResponseHead
from coatcheck.relay.headers import decode_headers
from coatcheck.relay.upstream import (
    CallBroken,
    UpstreamRequest,
    UpstreamResponse,
    UpstreamUnreachable,
)

CONNECT_S = 10.0
# Most servers keep an idle connection longer than this.
KEEPALIVE_S = 2.0
INCOMPLETE = "it closed the connection before its response was complete"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# Headers that aiohttp would add by itself. Only the caller's headers are sent.
_AUTO_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class _Sessions(NamedTuple):
    reused: aiohttp.ClientSession
    single: aiohttp.ClientSession  # one connection per call


class HttpUpstream:
    """Calls a service at its address. Create it once: it holds the connections. It can be used on
    several event loops; its connections on a loop close when that loop ends.
    """

    def __init__(self, target: str, *, connect_s: float = CONNECT_S) -> None:
        self._target = target.rstrip("/")
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_s)
        self._sessions: dict[asyncio.AbstractEventLoop, _Sessions] = {}
        self._closers: set[asyncio.Task[None]] = set()

    def call(
        self, call: UpstreamRequest, body: AsyncIterator[bytes] | None
    ) -> AbstractAsyncContextManager[UpstreamResponse]:
        """Make a call."""
        return self._call(call, body)

    @contextlib.asynccontextmanager
    async def _call(
        self, call: UpstreamRequest, body: AsyncIterator[bytes] | None
    ) -> AsyncIterator[UpstreamResponse]:
        sessions = self._current_sessions()
        is_safe = body is None and call.method in _SAFE_METHODS
        session = sessions.reused if is_safe else sessions.single
        headers = [(name, _encode_value(value)) for name, value in call.headers]
        if body is not None:
            headers.append(("content-length", str(call.size)))
        try:
            response = await session.request(
                call.method,
                URL(self._target + call.path, encoded=True),
                headers=headers,
                data=body,
                allow_redirects=False,
                skip_auto_headers=_AUTO_HEADERS,
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise UpstreamUnreachable(_describe(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise CallBroken(_describe(error)) from error
        try:
            head = ResponseHead(response.status, decode_headers(response.raw_headers))
            yield UpstreamResponse(head, _read_chunks(response, _EndOfBody(response)))
        finally:
            response.close()  # a connection whose response was read is back in the pool by now

    def _current_sessions(self) -> _Sessions:
        """Return the sessions of the running loop; they close with it."""
        loop = asyncio.get_running_loop()
        sessions = self._sessions.get(loop)
        if sessions is None:
            sessions = self._sessions[loop] = _Sessions(
                self._session(aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_S)),
                self._session(aiohttp.TCPConnector(limit=0, force_close=True)),
            )
            closer = loop.create_task(
                self._close_with_loop(loop, sessions), name="coatcheck upstream"
            )
            self._closers.add(closer)
            closer.add_done_callback(self._closers.discard)
        return sessions

    def _session(self, connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            timeout=self._timeout,
            max_line_size=64 * 1024,
            max_field_size=64 * 1024,
        )

    async def _close_with_loop(self, loop: asyncio.AbstractEventLoop, sessions: _Sessions) -> None:
        # A runner that ends a loop cancels its remaining tasks and awaits them, so this is where
        # resources of the loop can be closed.
        try:
            await asyncio.Event().wait()
        finally:
            self._sessions.pop(loop, None)
            for session in sessions:
                await session.close()


def _encode_value(value: str) -> str:
    # aiohttp encodes headers as UTF-8. A latin-1 text that holds UTF-8 bytes keeps those bytes.
    try:
        return value if value.isascii() else value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value


class _EndOfBody:
    """Detects how a body ended, because aiohttp hides two cases.

    If a connection was closed because its data could not be parsed, aiohttp leaves the reader
    waiting. If a body has no length, aiohttp takes a connection reset for its end.
    """

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._content = response.content
        self._closed: asyncio.Future[None] | None = None
        self.is_broken = False
        connection = response.connection
        if connection is None or connection.protocol is None:
            return  # the body is complete
        self._closed = connection.protocol.closed
        self._content.on_eof(self._on_eof)
        if self._closed is None:
            self._on_close()
        else:
            self._closed.add_done_callback(self._on_close)

    def _on_eof(self) -> None:
        closed = self._closed
        lost = closed is not None and closed.done() and not closed.cancelled()
        self.is_broken = lost and closed is not None and closed.exception() is not None

    def _on_close(self, closed: asyncio.Future[None] | None = None) -> None:
        if closed is not None and not closed.cancelled():
            closed.exception()  # marks it as retrieved; the reader gets its own error
        if not self._content.is_eof() and self._content.exception() is None:
            self._content.set_exception(aiohttp.ClientPayloadError("closed before its end"))


async def _read_chunks(response: aiohttp.ClientResponse, end: _EndOfBody) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    # aiohttp raises RuntimeError for a connection that is already closed.
    except (aiohttp.ClientError, OSError, RuntimeError) as error:
        raise CallBroken(_describe(error)) from error
    if end.is_broken:
        raise CallBroken(INCOMPLETE)


def _describe(error: Exception) -> str:
    """Describe an error without addresses or content, which must not get into logs and jobs."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "its name cannot be resolved"
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
            return "its certificate is not trusted, or it does not speak TLS"
        case aiohttp.ClientConnectorError(os_error=OSError(strerror=str(reason))):
            return reason
        case aiohttp.ConnectionTimeoutError():
            return "the connection timed out"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError():
            return INCOMPLETE
        case aiohttp.ClientResponseError() | aiohttp.InvalidURL():
            return "its response is not HTTP"
    return "the connection broke"
