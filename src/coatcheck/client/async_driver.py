"""AsyncDriver: performs a call's effects on asyncio.

It starts no tasks. A cancelled call stops immediately and closes its open stream.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import httpx2

from coatcheck.client.address import ServerAddress
from coatcheck.client.driver import LIMITS, api_response, build_request, connection_lost
from coatcheck.client.effects import (
    Effect,
    Effects,
    Emit,
    OpenStream,
    Pause,
    ReadStream,
    SendRequest,
)
from coatcheck.client.wire import ApiResponse, ConnectionLost

T = TypeVar("T")


class AsyncDriver:
    """Sends requests over httpx2, and sleeps."""

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
        """Close the connections."""
        await self._http.aclose()

    async def run(self, effects: Effects[T]) -> T:
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
                outcome = await exchange.perform(effect)
        finally:
            await exchange.close()

    async def iterate(self, effects: Effects[None]) -> AsyncGenerator[Any, None]:
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
                    outcome = await exchange.perform(effect)
        finally:
            await exchange.close()


class _Exchange:
    """The I/O of one call, with at most one open stream."""

    def __init__(self, http: httpx2.AsyncClient, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._http = http
        self._sleep = sleep
        self._response: httpx2.Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None

    async def close(self) -> None:
        if self._response is not None:
            response, self._response = self._response, None
            await response.aclose()

    async def perform(self, effect: Effect) -> ApiResponse | ConnectionLost | bytes | None:
        try:
            match effect:
                case SendRequest():
                    return await self._send(effect)
                case OpenStream():
                    return await self._open(effect)
                case ReadStream():
                    assert self._chunks is not None
                    return await anext(self._chunks, b"")
                case Pause():
                    await self.close()
                    await self._sleep(effect.seconds)
            return None
        except (httpx2.RequestError, httpx2.StreamError) as error:
            await self.close()
            return connection_lost(error)

    async def _send(self, effect: SendRequest) -> ApiResponse:
        request = build_request(self._http, effect.request, effect.timeout_s)
        response = await self._http.send(request)
        return api_response(response, response.content)

    async def _open(self, effect: OpenStream) -> ApiResponse:
        await self.close()
        request = build_request(self._http, effect.request, effect.timeout_s)
        self._response = await self._http.send(request, stream=True)
        if self._response.status_code not in (200, 206):
            return api_response(self._response, await self._response.aread())
        self._chunks = self._response.aiter_bytes()
        return api_response(self._response, b"")
