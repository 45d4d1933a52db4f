"""Group commit on a server: concurrent calls of one verb become one statement.

While a batch is in progress, further calls queue up, and the next batch takes them all. A lone
caller does not wait, and many callers share one round trip and one commit.

Batches are built and written on the loop that owns the connections. A call from another loop, such
as a handler's step, passes its item to that loop and is answered on its own loop: one hop each way,
with no other object created.

If a batch fails because of an item, it is halved and retried until the bad item fails alone. If the
store is unavailable, or access has changed, all callers of the batch get the error.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from coatcheck.errors import AccessChanged, StoreUnavailable

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Coalescer(Generic[Item, Answer]):
    """Collects calls of one verb into batches. Create it on the loop that writes them."""

    def __init__(
        self,
        write: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        *,
        most: int = 500,
        lanes: int = 2,
    ) -> None:
        self._write = write
        self._most = most
        self._lanes = lanes
        self._home = asyncio.get_running_loop()
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._running: set[asyncio.Task[None]] = set()

    async def __call__(self, item: Item) -> Answer:
        """Add an item to the next batch and wait for its answer."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        if loop is self._home:
            self._add(item, future)
        else:
            self._home.call_soon_threadsafe(self._add, item, future)
        return await future

    async def drain(self) -> None:
        """Wait until no batch is in progress."""
        while self._running:
            await asyncio.gather(*self._running, return_exceptions=True)

    def _add(self, item: Item, future: asyncio.Future[Answer]) -> None:
        self._waiting.append((item, future))
        if len(self._running) < self._lanes:
            task = self._home.create_task(self._run())
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    def _tell(self, future: asyncio.Future[Answer], tell: Callable[[], None]) -> None:
        """Answer a caller on its own loop, unless it was cancelled."""
        loop = future.get_loop()
        if loop is self._home:
            _unless_done(future, tell)
        else:
            with contextlib.suppress(RuntimeError):  # that loop is closed
                loop.call_soon_threadsafe(_unless_done, future, tell)

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            # Drop callers that were cancelled before their turn.
            await self._write_batch([entry for entry in batch if not entry[1].cancelled()])

    async def _write_batch(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        if not batch:
            return
        try:
            answers = await self._write([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - becomes the answer to the callers
            if len(batch) == 1 or isinstance(error, (StoreUnavailable, AccessChanged)):
                for _, future in batch:
                    self._tell(future, partial(future.set_exception, error))
                return
            middle = len(batch) // 2
            await self._write_batch(batch[:middle])
            await self._write_batch(batch[middle:])
            return
        for (_, future), answer in zip(batch, answers, strict=True):
            self._tell(future, partial(future.set_result, answer))


def _unless_done(future: asyncio.Future[Any], tell: Callable[[], None]) -> None:
    if not future.done():
        tell()
