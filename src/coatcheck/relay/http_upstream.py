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

from coatcheck.relay.call import Head
from coatcheck.relay.headers import pairs_of
from coatcheck.relay.upstream import CallBroken, Incoming, Outgoing, TargetUnreachable

CONNECT_S = 10.0
# Most servers keep an idle connection for longer than this.
KEPT_OPEN_S = 2.0
PIECE = 64 * 1024
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
        self, call: Outgoing, body: AsyncIterator[bytes] | None
    ) -> AbstractAsyncContextManager[Incoming]:
        """Make a call."""
        return self._call(call, body)

    @contextlib.asynccontextmanager
    async def _call(
        self, call: Outgoing, body: AsyncIterator[bytes] | None
    ) -> AsyncIterator[Incoming]:
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
            head = Head(response.status, pairs_of(response.raw_headers))
            yield Incoming(head, _chunks(response))
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


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except (aiohttp.ClientError, OSError) as error:
        raise CallBroken(_words(error)) from error


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
            return "it closed the connection before its answer was complete"
        case aiohttp.ClientResponseError() | aiohttp.InvalidURL():
            return "what it answered is not HTTP"
    return "the connection broke"
