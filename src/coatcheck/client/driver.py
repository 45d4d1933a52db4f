"""Driver: carries out a call's steps on the caller's thread. Any number of threads may share it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from coatcheck.blobs.blobs import pieces_of
from coatcheck.client.address import ServerAddress
from coatcheck.client.connection_errors import lost
from coatcheck.client.effects import Emit, OpenStream, Pause, ReadStream, SendRequest, Step, Steps
from coatcheck.client.wire import ApiRequest, ApiResponse, ConnectionLost

T = TypeVar("T")
# As many connections as there are callers: who waits for a job must not hold up who submits one.
LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=20)


class Driver:
    """Sends requests over httpx2 and lets time pass."""

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
        """Let go of the connections."""
        self._http.close()

    def run(self, steps: Steps[T]) -> T:
        """Carry out a call and return what it comes to."""
        exchange = _Exchange(self._http, self._sleep)
        outcome: Any = None
        try:
            while True:
                try:
                    step = steps.send(outcome)
                except StopIteration as done:
                    value: T = done.value
                    return value
                outcome = exchange.carry_out(step)
        finally:
            exchange.close()

    def iterate(self, steps: Steps[None]) -> Generator[Any, None, None]:
        """Carry out a call that emits values, as far as they are wanted."""
        exchange = _Exchange(self._http, self._sleep)
        outcome: Any = None
        try:
            while True:
                try:
                    step = steps.send(outcome)
                except StopIteration:
                    return
                if isinstance(step, Emit):
                    yield step.value
                    outcome = None
                else:
                    outcome = exchange.carry_out(step)
        finally:
            exchange.close()


class _Exchange:
    """What one call holds while it lasts: at most one open stream."""

    def __init__(self, http: httpx2.Client, sleep: Callable[[float], None]) -> None:
        self._http = http
        self._sleep = sleep
        self._response: httpx2.Response | None = None
        self._pieces: Iterator[bytes] = iter(())

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None

    def carry_out(self, step: Step) -> ApiResponse | ConnectionLost | bytes | None:
        try:
            match step:
                case SendRequest():
                    return self._send(step)
                case OpenStream():
                    return self._open(step)
                case ReadStream():
                    return next(self._pieces, b"")
                case Pause():
                    self.close()
                    self._sleep(step.seconds)
            return None
        except (httpx2.RequestError, httpx2.StreamError) as error:
            self.close()
            return lost(error)

    def _send(self, step: SendRequest) -> ApiResponse:
        response = self._http.send(build(self._http, step.request, step.timeout_s))
        return answer(response, response.content)

    def _open(self, step: OpenStream) -> ApiResponse:
        self.close()
        request = build(self._http, step.request, step.timeout_s)
        self._response = self._http.send(request, stream=True)
        if self._response.status_code not in (200, 206):
            return answer(self._response, self._response.read())
        self._pieces = self._response.iter_bytes()
        return answer(self._response, b"")


def build(
    http: httpx2.Client | httpx2.AsyncClient, request: ApiRequest, timeout_s: float
) -> httpx2.Request:
    """Make the library's request of ours."""
    return http.build_request(
        request.method,
        request.path,
        params=list(request.query) or None,
        headers=dict(request.headers),
        content=request.content if request.file is None else _content(http, request.file),
        timeout=timeout_s,
    )


def _content(http: httpx2.Client | httpx2.AsyncClient, file: Path) -> Any:
    """Return the bytes of a file, a piece at a time, as the library wants them."""
    if isinstance(http, httpx2.Client):
        return pieces_of(file)
    return _without_blocking(pieces_of(file))


async def _without_blocking(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(next, pieces, b""):
        yield piece


def answer(response: httpx2.Response, content: bytes) -> ApiResponse:
    """Make our answer of the library's."""
    return ApiResponse(response.status_code, dict(response.headers), content)
