"""Calling the wrapped app from the worker: on the server's loop, whatever loop the worker has.

The app's pools, locks and lifespan state live on the loop the server runs it on, so it is called
there and nowhere else. All else about the call lives on the worker's loop:

- *The body* is read there, a piece at a time, when the app asks for one.
- *What the app sends* waits there until the worker takes it, `AHEAD` messages at most: a slow
  reader slows the app.
- *After the body* the app that listens for its caller to go hears nothing until it has answered,
  then that the caller went, as it would from a server.
- *The end* is when the app has returned. What it does after its answer (background tasks) belongs
  to the job, and is waited for.

Who leaves the call before the answer was complete, because the job was cancelled or its time is up,
cancels the app's task, and waits until that has ended: an endpoint cleans up before its job is
settled.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from concurrent.futures import Future
from typing import Any

from coatcheck.middleware.loops import on_loop

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger(__name__)

# How many messages of the app may wait for the worker.
AHEAD = 4


class AppFailed(Exception):
    """The app ended without a complete answer; `__cause__` is what it raised, if it raised."""


class AppCall:
    """One call of the app; made, read and left on the worker's loop."""

    def __init__(self, body: AsyncIterator[bytes]) -> None:
        self._here = asyncio.get_running_loop()
        self._body = body
        self._body_ended = False
        self._said: asyncio.Queue[Message | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(AHEAD)
        self._answered = asyncio.Event()  # the app has sent the last part of its answer
        self._is_read = False  # and it was taken
        self._ended: Future[None] = Future()

    @contextlib.asynccontextmanager
    async def made(
        self, app: ASGIApp, scope: Scope, server: asyncio.AbstractEventLoop
    ) -> AsyncIterator[AppCall]:
        """Make the call, for as long as somebody reads its answer."""
        running = asyncio.run_coroutine_threadsafe(self._run(app, scope), server)
        try:
            yield self
        finally:
            if not self._is_read:
                running.cancel()
            await _end_of(self._ended)

    async def messages(self) -> AsyncIterator[Message]:
        """Read what the app sends, up to the last part of its body. Raises AppFailed."""
        while (message := await self._said.get()) is not None:
            self._room.release()
            self._is_read = _is_last(message)
            yield message
            if self._is_read:
                return
        raise AppFailed("the app ended without a complete answer") from self._ended.exception()

    # --- on the server's loop

    async def _run(self, app: ASGIApp, scope: Scope) -> None:
        try:
            await app(scope, self._receive, self._send)
        except asyncio.CancelledError:
            self._end(None)
            raise
        except Exception as error:  # noqa: BLE001 - it is raised where the answer is read
            self._end(error)
        else:
            self._end(None)

    def _end(self, error: Exception | None) -> None:
        if error is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)
        with contextlib.suppress(RuntimeError):  # the worker is gone, and nobody reads
            self._here.call_soon_threadsafe(self._said.put_nowait, None)

    async def _receive(self) -> Message:
        return await on_loop(self._here, self._next_of_body())

    async def _send(self, message: Message) -> None:
        await on_loop(self._here, self._put(message))

    # --- for the app, on the worker's loop

    async def _next_of_body(self) -> Message:
        if self._body_ended:
            await self._answered.wait()
            return {"type": "http.disconnect"}
        piece = await anext(self._body, None)
        self._body_ended = piece is None
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    async def _put(self, message: Message) -> None:
        await self._room.acquire()
        self._said.put_nowait(message)
        if _is_last(message):
            self._answered.set()


def _is_last(message: Message) -> bool:
    return message["type"] == "http.response.body" and not message.get("more_body", False)


async def _end_of(call: Future[None]) -> None:
    try:
        await asyncio.wrap_future(call)
    except Exception:
        # Whoever reads the answer hears of it where there was none; else it is too late for it.
        log.debug("the app raised", exc_info=True)
