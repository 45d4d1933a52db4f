"""Calls to the outside: to the checked address and no other, bounded in time and size."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import httpcore2

from coatcheck.egress.guard import EgressPolicy
from coatcheck.egress.target import EgressTarget, read_target
from coatcheck.errors import EgressDenied, EgressFailed

# Connections that are kept for the next call to the same place, and for how long.
KEPT = 100
KEPT_S = 5.0


class OutboundResponse(NamedTuple):
    """What came back: the body up to the cap, and whether there was more of it."""

    status: int
    headers: dict[str, str]
    body: bytes
    cut: bool


class OutboundClient:
    """The one way out. Connections belong to the loop it is used on."""

    def __init__(self, guard: EgressPolicy, ssl_context: ssl.SSLContext | None = None) -> None:
        self.guard = guard
        self._ssl_context = ssl_context
        self._known_pool: httpcore2.AsyncConnectionPool | None = None

    @property
    def _pool(self) -> httpcore2.AsyncConnectionPool:
        if self._known_pool is None:
            self._known_pool = httpcore2.AsyncConnectionPool(
                # One for all connections: whom to trust is read from files.
                ssl_context=self._ssl_context or httpcore2.default_ssl_context(),
                max_connections=None,
                max_keepalive_connections=KEPT,
                keepalive_expiry=KEPT_S,
                network_backend=_Pinned(self.guard),
            )
        return self._known_pool

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        timeout_s: float,
        most_bytes: int,
    ) -> OutboundResponse:
        """Make one call and return its answer, a redirect too; raises EgressDenied, EgressFailed.

        `timeout_s` is for all of it. Of the answer's body `most_bytes` are read.
        """
        target = self.guard.read(url)
        sent = [("host", target.authority), ("content-length", str(len(body))), *headers.items()]
        try:
            async with asyncio.timeout(timeout_s):
                return await self._send(method, target, sent, body, most_bytes)
        except TimeoutError:
            raise EgressFailed(f"no answer within {timeout_s:g} s") from None
        except httpcore2.ConnectError as error:
            raise EgressFailed(_why(error, "no connection could be made")) from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError) as error:
            raise EgressFailed(_why(error, "the connection broke off")) from error

    async def _send(
        self, method: str, target: EgressTarget, headers: Any, body: bytes, most_bytes: int
    ) -> OutboundResponse:
        url = httpcore2.URL(
            scheme=target.scheme, host=target.host, port=target.port, target=target.path
        )
        async with self._pool.stream(method, url, headers=headers, content=body) as response:
            read, cut = bytearray(), False
            async for chunk in response.aiter_stream():
                read += chunk
                if len(read) > most_bytes:
                    cut = True
                    break
            found = {
                name.decode("latin-1").lower(): value.decode("latin-1")
                for name, value in response.headers
            }
            return OutboundResponse(response.status, found, bytes(read[:most_bytes]), cut)

    async def close(self) -> None:
        """Let go of the connections."""
        if self._known_pool is not None:
            await self._known_pool.aclose()


def _why(error: Exception, plain: str) -> str:
    """Say what went wrong without the words of whoever was called."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "its certificate could not be verified"
        if isinstance(cause, ssl.SSLError):
            return "TLS could not be agreed on"
        cause = cause.__cause__ or cause.__context__
    return plain


class _Pinned(httpcore2.AsyncNetworkBackend):
    """Connects to the addresses that were checked. TLS is told the name by the layer above."""

    def __init__(self, guard: EgressPolicy) -> None:
        self._guard = guard
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        written = f"[{host}]" if ":" in host else host
        target = read_target(f"http://{written}:{port}/")
        last: Exception = EgressFailed("the host has no address")
        for address in await self._guard.addresses(target):
            try:
                return await self._network.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except httpcore2.ConnectError as error:
                last = error
        raise last

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
        raise EgressDenied("a socket on this machine is not called")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
