"""An upstream that is reached by HTTP/1.1.

Connections are kept open only for calls that have no body and may be made twice: a server may close
a kept connection in the very moment it is used again, and then nobody knows whether it has seen the
call. Any other call gets a connection of its own, so that *unreachable* means that nothing was
sent. Bodies pass as they are: nothing is decompressed, no redirect is followed, no cookie kept.
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
from coatcheck.relay.headers import pairs_of
from coatcheck.relay.upstream import (
    CallBroken,
    TargetUnreachable,
    UpstreamRequest,
    UpstreamResponse,
)

CONNECT_S = 10.0
# Most servers keep an idle connection for longer than this.
KEPT_OPEN_S = 2.0
PIECE = 64 * 1024
CUT = "it closed the connection before its answer was complete"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
# What the library would add of its own accord; what the caller sent is what is sent.
_NOT_OURS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class _Sessions(NamedTuple):
    kept: aiohttp.ClientSession  # whose connections are used again
    single: aiohttp.ClientSession


class HttpUpstream:
    """Calls a service at its address. It is made once and kept, as its connections belong to it; on
    whichever event loop it is used, these are closed when the loop ends.
    """

    def __init__(self, target: str, *, connect_s: float = CONNECT_S) -> None:
        self._target = target.rstrip("/")
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_s)
        self._sessions: dict[asyncio.AbstractEventLoop, _Sessions] = {}
        self._keepers: set[asyncio.Task[None]] = set()

    def call(
        self, call: UpstreamRequest, body: AsyncIterator[bytes] | None
    ) -> AbstractAsyncContextManager[UpstreamResponse]:
        """Make a call."""
        return self._call(call, body)

    @contextlib.asynccontextmanager
    async def _call(
        self, call: UpstreamRequest, body: AsyncIterator[bytes] | None
    ) -> AsyncIterator[UpstreamResponse]:
        kept, single = self._sessions_here()
        session = kept if body is None and call.method in _SAFE else single
        headers = [(name, _as_sent(value)) for name, value in call.headers]
        if body is not None:
            headers.append(("content-length", str(call.size)))
        try:
            response = await session.request(
                call.method,
                URL(self._target + call.path, encoded=True),
                headers=headers,
                data=body,
                allow_redirects=False,
                skip_auto_headers=_NOT_OURS,
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise TargetUnreachable(_words(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise CallBroken(_words(error)) from error
        try:
            head = ResponseHead(response.status, pairs_of(response.raw_headers))
            yield UpstreamResponse(head, _chunks(response, _Ending(response)))
        finally:
            response.close()  # a connection whose answer was read to its end is kept by now

    def _sessions_here(self) -> _Sessions:
        """Return the sessions of this loop; they end with it."""
        loop = asyncio.get_running_loop()
        found = self._sessions.get(loop)
        if found is None:
            found = self._sessions[loop] = _Sessions(
                self._session(aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_OPEN_S)),
                self._session(aiohttp.TCPConnector(limit=0, force_close=True)),
            )
            keeper = loop.create_task(self._keep(loop, found), name="coatcheck upstream")
            self._keepers.add(keeper)
            keeper.add_done_callback(self._keepers.discard)
        return found

    def _session(self, connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            timeout=self._timeout,
            max_line_size=64 * 1024,
            max_field_size=64 * 1024,
        )

    async def _keep(self, loop: asyncio.AbstractEventLoop, sessions: _Sessions) -> None:
        # Whoever ends a loop cancels what is left on it, and waits for that: so this is the place
        # to close what belongs to the loop.
        try:
            await asyncio.Event().wait()
        finally:
            self._sessions.pop(loop, None)
            for session in sessions:
                await session.close()


def _as_sent(value: str) -> str:
    # The library writes headers as UTF-8: what was not that before is, after this, the same text.
    try:
        return value if value.isascii() else value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value


class _Ending:
    """Tells how a body ended; the library says too little of it.

    Where a connection was closed because what came could not be parsed, it leaves the reader
    waiting. Where a body has no length, it takes a connection that was reset for its end.
    """

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._content = response.content
        self._closed: asyncio.Future[None] | None = None
        self.is_broken = False
        connection = response.connection
        if connection is None or connection.protocol is None:
            return  # all of it is there
        self._closed = connection.protocol.closed
        self._content.on_eof(self._ended)
        if self._closed is None:
            self._check()
        else:
            self._closed.add_done_callback(self._check)

    def _ended(self) -> None:
        closed = self._closed
        lost = closed is not None and closed.done() and not closed.cancelled()
        self.is_broken = lost and closed is not None and closed.exception() is not None

    def _check(self, closed: asyncio.Future[None] | None = None) -> None:
        if closed is not None and not closed.cancelled():
            closed.exception()  # what it says is known to whoever reads
        if not self._content.is_eof() and self._content.exception() is None:
            self._content.set_exception(aiohttp.ClientPayloadError("closed before its end"))


async def _chunks(response: aiohttp.ClientResponse, ending: _Ending) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    # The library's word for a connection that is gone already is RuntimeError.
    except (aiohttp.ClientError, OSError, RuntimeError) as error:
        raise CallBroken(_words(error)) from error
    if ending.is_broken:
        raise CallBroken(CUT)


def _words(error: Exception) -> str:
    """Say what happened without what was said: addresses and bytes stay out of logs and jobs."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "its name cannot be resolved"
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
            return "its certificate is not trusted, or it does not speak TLS"
        case aiohttp.ClientConnectorError(os_error=OSError(strerror=str(why))):
            return why
        case aiohttp.ConnectionTimeoutError():
            return "it could not be connected to in time"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError():
            return CUT
        case aiohttp.ClientResponseError() | aiohttp.InvalidURL():
            return "what it answered is not HTTP"
    return "the connection broke"
