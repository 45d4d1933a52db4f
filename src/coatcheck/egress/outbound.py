"""Outgoing HTTP calls: to checked addresses only, limited in time and size."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import httpcore2

from coatcheck.egress.policy import EgressPolicy
from coatcheck.egress.target import EgressTarget, read_target
from coatcheck.errors import EgressDenied, EgressFailed

# How many idle connections are kept for further calls, and for how long.
MAX_IDLE_CONNECTIONS = 100
IDLE_S = 5.0


class OutboundResponse(NamedTuple):
    """A response: its body up to the limit, and whether the body was truncated."""

    status: int
    headers: dict[str, str]
    body: bytes
    truncated: bool


class OutboundClient:
    """An HTTP client that enforces the egress policy. Its connections belong to one event loop."""

    def __init__(self, policy: EgressPolicy, ssl_context: ssl.SSLContext | None = None) -> None:
        self.policy = policy
        self._ssl_context = ssl_context
        self._opened_pool: httpcore2.AsyncConnectionPool | None = None

    @property
    def _pool(self) -> httpcore2.AsyncConnectionPool:
        if self._opened_pool is None:
            self._opened_pool = httpcore2.AsyncConnectionPool(
                # Shared by all connections, because it loads the trusted certificates from files.
                ssl_context=self._ssl_context or httpcore2.default_ssl_context(),
                max_connections=None,
                max_keepalive_connections=MAX_IDLE_CONNECTIONS,
                keepalive_expiry=IDLE_S,
                network_backend=_CheckedBackend(self.policy),
            )
        return self._opened_pool

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        timeout_s: float,
        max_bytes: int,
    ) -> OutboundResponse:
        """Send a request and return its response, even a redirect.

        `timeout_s` limits the whole call. At most `max_bytes` of the response body are read. Raise
        EgressDenied or EgressFailed.
        """
        target = self.policy.check_url(url)
        sent = [("host", target.authority), ("content-length", str(len(body))), *headers.items()]
        try:
            async with asyncio.timeout(timeout_s):
                return await self._send(method, target, sent, body, max_bytes)
        except TimeoutError:
            raise EgressFailed(f"no response within {timeout_s:g} s") from None
        except httpcore2.ConnectError as error:
            raise EgressFailed(_describe(error, "the connection failed")) from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError) as error:
            raise EgressFailed(_describe(error, "the connection was lost")) from error

    async def _send(
        self, method: str, target: EgressTarget, headers: Any, body: bytes, max_bytes: int
    ) -> OutboundResponse:
        url = httpcore2.URL(
            scheme=target.scheme, host=target.host, port=target.port, target=target.path
        )
        async with self._pool.stream(method, url, headers=headers, content=body) as response:
            check_url, truncated = bytearray(), False
            async for chunk in response.aiter_stream():
                check_url += chunk
                if len(check_url) > max_bytes:
                    truncated = True
                    break
            found = {
                name.decode("latin-1").lower(): value.decode("latin-1")
                for name, value in response.headers
            }
            return OutboundResponse(response.status, found, bytes(check_url[:max_bytes]), truncated)

    async def close(self) -> None:
        """Close the connections."""
        if self._opened_pool is not None:
            await self._opened_pool.aclose()


def _describe(error: Exception, plain: str) -> str:
    """Describe an error without any text from the remote side."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "the certificate could not be verified"
        if isinstance(cause, ssl.SSLError):
            return "the TLS handshake failed"
        cause = cause.__cause__ or cause.__context__
    return plain


class _CheckedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to checked addresses only. The layer above gives TLS the name to verify."""

    def __init__(self, policy: EgressPolicy) -> None:
        self._policy = policy
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
        for address in await self._policy.addresses(target):
            try:
                return await self._network.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except httpcore2.ConnectError as error:
                last = error
        raise last

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
        raise EgressDenied("Unix sockets are not allowed")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
