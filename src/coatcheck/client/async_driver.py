"""AsyncDriver: carries out a call's steps on asyncio.

It starts no tasks. A call that is cancelled stops where it is, and closes what it has open.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import httpx2

from coatcheck.client.address import ServerAddress
from coatcheck.client.connection_errors import lost
from coatcheck.client.driver import LIMITS, answer, build
from coatcheck.client.effects import Emit, OpenStream, Pause, ReadStream, SendRequest, Step, Steps
from coatcheck.client.wire import ApiResponse, ConnectionLost

T = TypeVar("T")


class AsyncDriver:
    """Sends requests over httpx2 and lets time pass."""

    def __init__(
        self,
        address: ServerAddress,
        *,
        transport: httpx2.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._http = httpx2.AsyncClient(
            base_url=address.url,
            headers=dict(address.headers),
            limits=LIMITS,
            transport=transport,
        )
        self._sleep = sleep
        self.monotonic = monotonic

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    async def run(self, steps: Steps[T]) -> T:
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
                outcome = await exchange.carry_out(step)
        finally:
            await exchange.close()

    async def iterate(self, steps: Steps[None]) -> AsyncGenerator[Any, None]:
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
                    outcome = await exchange.carry_out(step)
        finally:
            await exchange.close()


class _Exchange:
    """What one call holds while it lasts: at most one open stream."""

    def __init__(self, http: httpx2.AsyncClient, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._http = http
        self._sleep = sleep
        self._response: httpx2.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None

    async def close(self) -> None:
        if self._response is not None:
            response, self._response = self._response, None
            await response.aclose()

    async def carry_out(self, step: Step) -> ApiResponse | ConnectionLost | bytes | None:
        try:
            match step:
                case SendRequest():
                    return await self._send(step)
                case OpenStream():
                    return await self._open(step)
                case ReadStream():
                    assert self._pieces is not None
                    return await anext(self._pieces, b"")
                case Pause():
                    await self.close()
                    await self._sleep(step.seconds)
            return None
        except (httpx2.RequestError, httpx2.StreamError) as error:
            await self.close()
            return lost(error)

    async def _send(self, step: SendRequest) -> ApiResponse:
        response = await self._http.send(build(self._http, step.request, step.timeout_s))
        return answer(response, response.content)

    async def _open(self, step: OpenStream) -> ApiResponse:
        await self.close()
        request = build(self._http, step.request, step.timeout_s)
        self._response = await self._http.send(request, stream=True)
        if self._response.status_code not in (200, 206):
            return answer(self._response, await self._response.aread())
        self._pieces = self._response.aiter_bytes()
        return answer(self._response, b"")
