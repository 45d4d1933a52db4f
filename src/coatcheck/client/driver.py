"""Driver: performs a call's effects on the caller's thread. Threads may share it."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from coatcheck.blobs.blobs import pieces_of
from coatcheck.client.address import ServerAddress
from coatcheck.client.effects import (
    Effect,
    Effects,
    Emit,
    OpenStream,
    Pause,
    ReadStream,
    SendRequest,
)
from coatcheck.client.wire import ApiRequest, ApiResponse, ConnectionLost

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)
# No limit on connections: callers that wait for a job must not block callers that submit one.
LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=20)


class Driver:
    """Sends requests over httpx2, and sleeps."""

    def __init__(
        self,
        address: ServerAddress,
        *,
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._http = httpx2.Client(
            base_url=address.url,
            headers=dict(address.headers),
            limits=LIMITS,
            transport=transport,
        )
        self._sleep = sleep
        self.monotonic = monotonic

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def run(self, effects: Effects[T]) -> T:
        """Perform a call's effects and return its result."""
        exchange = _Exchange(self._http, self._sleep)
        outcome: Any = None
        try:
            while True:
                try:
                    effect = effects.send(outcome)
                except StopIteration as done:
                    value: T = done.value
                    return value
                outcome = exchange.perform(effect)
        finally:
            exchange.close()

    def iterate(self, effects: Effects[None]) -> Generator[Any, None]:
        """Perform a call's effects and yield the values it emits."""
        exchange = _Exchange(self._http, self._sleep)
        outcome: Any = None
        try:
            while True:
                try:
                    effect = effects.send(outcome)
                except StopIteration:
                    return
                if isinstance(effect, Emit):
                    yield effect.value
                    outcome = None
                else:
                    outcome = exchange.perform(effect)
        finally:
            exchange.close()


class _Exchange:
    """The I/O of one call, with at most one open stream."""

    def __init__(self, http: httpx2.Client, sleep: Callable[[float], None]) -> None:
        self._http = http
        self._sleep = sleep
        self._response: httpx2.Response | None = None
        self._chunks: Iterator[bytes] = iter(())

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None

    def perform(self, effect: Effect) -> ApiResponse | ConnectionLost | bytes | None:
        try:
            match effect:
                case SendRequest():
                    return self._send(effect)
                case OpenStream():
                    return self._open(effect)
                case ReadStream():
                    return next(self._chunks, b"")
                case Pause():
                    self.close()
                    self._sleep(effect.seconds)
            return None
        except (httpx2.RequestError, httpx2.StreamError) as error:
            self.close()
            return connection_lost(error)

    def _send(self, effect: SendRequest) -> ApiResponse:
        response = self._http.send(build_request(self._http, effect.request, effect.timeout_s))
        return api_response(response, response.content)

    def _open(self, effect: OpenStream) -> ApiResponse:
        self.close()
        request = build_request(self._http, effect.request, effect.timeout_s)
        self._response = self._http.send(request, stream=True)
        if self._response.status_code not in (200, 206):
            return api_response(self._response, self._response.read())
        self._chunks = self._response.iter_bytes()
        return api_response(self._response, b"")


def build_request(
    http: httpx2.Client | httpx2.AsyncClient, request: ApiRequest, timeout_s: float
) -> httpx2.Request:
    """Convert our request to one of the HTTP library."""
    return http.build_request(
        request.method,
        request.path,
        params=list(request.query) or None,
        headers=dict(request.headers),
        content=request.content if request.file is None else _content(http, request.file),
        timeout=timeout_s,
    )


def _content(http: httpx2.Client | httpx2.AsyncClient, file: Path) -> Any:
    if isinstance(http, httpx2.Client):
        return pieces_of(file)
    return _read_in_thread(pieces_of(file))


async def _read_in_thread(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(next, chunks, b""):
        yield chunk


def api_response(response: httpx2.Response, content: bytes) -> ApiResponse:
    """Convert a response of the HTTP library to ours."""
    return ApiResponse(response.status_code, dict(response.headers), content)


def connection_lost(error: httpx2.RequestError | httpx2.StreamError) -> ConnectionLost:
    """Convert an exception of the HTTP library to the reason for a lost connection."""
    untrusted = _cause(error, ssl.SSLCertVerificationError)
    if untrusted is not None:
        reason = f"its certificate is not trusted ({untrusted.verify_message})"
        return ConnectionLost(reason, connected=False, permanent=True)
    match error:
        case httpx2.ConnectTimeout():
            return ConnectionLost("the connection timed out", connected=False)
        case httpx2.ConnectError():
            return ConnectionLost(_connect_reason(error), connected=False)
        case httpx2.LocalProtocolError() | httpx2.UnsupportedProtocol():
            return ConnectionLost(
                f"the request cannot be sent: {error}", connected=False, permanent=True
            )
        case httpx2.TimeoutException():
            return ConnectionLost("the response timed out")
    return ConnectionLost("the connection was lost before the response was complete")


def _connect_reason(error: Exception) -> str:
    cause = _cause(error, OSError)
    if isinstance(cause, ConnectionRefusedError):
        return "the connection was refused; is the server running, and is the address right?"
    reason = (cause and cause.strerror) or str(error) or "no connection"
    return reason[0].lower() + reason[1:]


def _cause(error: BaseException | None, kind: type[E]) -> E | None:
    """Return the innermost error of this type in the chain of causes."""
    found: E | None = None
    while error is not None:
        if isinstance(error, kind):
            found = error
        error = error.__cause__ or error.__context__
    return found
