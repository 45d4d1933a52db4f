"""Both clients for one test: AsyncClient runs on its own loop behind Client's interface."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, Protocol, cast

import httpx2

from coatcheck import AsyncClient, AsyncJobHandle, Client
from coatcheck.client.async_driver import AsyncDriver
from coatcheck.client.async_webhooks import AsyncWebhookClient
from coatcheck.client.driver import Driver
from tests.cli.processes import PATIENCE_S

Flavour = Literal["sync", "async"]
FLAVOURS: tuple[Flavour, ...] = ("sync", "async")


class Connect(Protocol):
    """Opens a client of the flavor under test; it is closed when the test ends."""

    def __call__(self, url: str, **options: Any) -> Client: ...


class FakeTime:
    """A clock that advances only during pauses, and records them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@contextmanager
def connected(flavour: Flavour, url: str, **options: Any) -> Iterator[Client]:
    """Open a client; wrap an AsyncClient in Client's interface."""
    if flavour == "sync":
        with Client(url, **options) as client:
            yield client
        return
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    inner = AsyncClient(url, **options)
    try:
        yield cast("Client", _Blocking(loop, inner))
    finally:
        _in(loop, inner.close())
        _in(loop, loop.shutdown_asyncgens())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def scripted(
    flavour: Flavour, handler: Callable[[httpx2.Request], httpx2.Response], fake: FakeTime
) -> dict[str, Any]:
    """Return options for a client with a scripted server and a fake clock."""
    transport = httpx2.MockTransport(handler)
    return _options(flavour, fake.sleep, transport=transport, monotonic=fake.monotonic)


def hasty(flavour: Flavour) -> dict[str, Any]:
    """Return options for a client whose pauses are a hundred times shorter."""
    return _options(flavour, lambda seconds: time.sleep(seconds / 100))


def _options(flavour: Flavour, sleep: Callable[[float], None], **more: Any) -> dict[str, Any]:
    async def sleep_async(seconds: float) -> None:
        await asyncio.to_thread(sleep, seconds)

    if flavour == "sync":
        return {"driver": partial(Driver, sleep=sleep, **more)}
    return {"driver": partial(AsyncDriver, sleep=sleep_async, **more)}


class _Blocking:
    """An AsyncClient or AsyncJobHandle with blocking methods."""

    def __init__(self, loop: asyncio.AbstractEventLoop, inner: Any) -> None:
        self._loop = loop
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if isinstance(found, AsyncWebhookClient):
            return _Blocking(self._loop, found)
        if not callable(found):
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            outcome = found(*arguments, **options)
            if inspect.isawaitable(outcome):
                outcome = _in(self._loop, _await(outcome))
            return self._wrap(outcome)

        return call

    def _wrap(self, outcome: Any) -> Any:
        if isinstance(outcome, AsyncJobHandle):
            return _Blocking(self._loop, outcome)
        if isinstance(outcome, list):
            return [self._wrap(item) for item in outcome]
        if inspect.isasyncgen(outcome):
            return self._iterate(cast("AsyncGenerator[Any, None]", outcome))
        return outcome

    def _iterate(self, generator: AsyncGenerator[Any, None]) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield _in(self._loop, _await(anext(generator)))
                except StopAsyncIteration:
                    return
        finally:
            _in(self._loop, generator.aclose())


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _in(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result(2 * PATIENCE_S)
