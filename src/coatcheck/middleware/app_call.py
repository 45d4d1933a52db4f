"""Call the wrapped app from the worker, on the server's event loop.

The app's pools, locks and lifespan state live on the loop its server runs it on, so the app is
called there and nowhere else. The rest of the call lives on the worker's loop:

- *Request body*: read on the worker's loop, one piece at a time, when the app calls `receive`.
- *Response messages*: queued until the worker reads them, at most `READ_AHEAD` of them. A slow
  reader slows the app.
- *Disconnect*: an app that calls `receive` after the body waits until its response is complete, and
  then gets `http.disconnect`, as it would from a server.
- *End*: the call ends when the app returns. Background tasks belong to the job and are awaited.

A worker that leaves the call before the response is complete, because the job was cancelled or
timed out, cancels the app's task and waits for it: an endpoint cleans up before its job is settled.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, MutableMapping
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger(__name__)

# How many messages of the app may be queued for the worker.
READ_AHEAD = 4
# Scope key of a replayed call: the context of its job. The middleware never intercepts it again.
REPLAY = "coatcheck"
# Scope key of an authorization probe (middleware/fastapi_probe.py).
PROBE = "coatcheck.probe"


def is_own_call(scope: Scope) -> bool:
    """Return whether the middleware itself makes this call, so that it goes straight to the app."""
    return REPLAY in scope or PROBE in scope


def target_app(scope: Scope, wrapped: ASGIApp) -> ASGIApp:
    """Return the app to call: the outer Starlette app if the middleware was added to one, so that
    calls also pass the middleware outside this one; otherwise the wrapped app.
    """
    outer: ASGIApp = scope.get("app") or wrapped
    return outer


async def run_on_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on another thread's loop and await it here. Cancellation is passed on."""
    if loop is asyncio.get_running_loop():
        return await work
    try:
        future = asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError:
        work.close()  # the loop is closed, so nothing would ever run it
        raise
    return await asyncio.wrap_future(future)


class AppFailed(Exception):
    """The app ended without a complete response; `__cause__` is the exception it raised, if any."""


class AppCall:
    """One call of the app. It is created, read and left on the worker's loop."""

    def __init__(self, body: AsyncIterator[bytes]) -> None:
        self._worker_loop = asyncio.get_running_loop()
        self._body = body
        self._body_ended = False
        self._messages: asyncio.Queue[Message | None] = asyncio.Queue()
        self._capacity = asyncio.Semaphore(READ_AHEAD)
        self._response_sent = asyncio.Event()
        self._response_read = False
        self._ended: Future[None] = Future()

    @contextlib.asynccontextmanager
    async def run(
        self, app: ASGIApp, scope: Scope, server_loop: asyncio.AbstractEventLoop
    ) -> AsyncIterator[AppCall]:
        """Call the app. Leaving the context early cancels the call and waits for it to end."""
        task = asyncio.run_coroutine_threadsafe(self._run(app, scope), server_loop)
        try:
            yield self
        finally:
            if not self._response_read:
                task.cancel()
            await _wait_for_end(self._ended)

    async def messages(self) -> AsyncIterator[Message]:
        """Iterate over the app's messages until its response is complete. Raises AppFailed."""
        while (message := await self._messages.get()) is not None:
            self._capacity.release()
            self._response_read = _is_last(message)
            yield message
            if self._response_read:
                return
        raise AppFailed("the app ended without a complete response") from self._ended.exception()

    # --- on the server's loop

    async def _run(self, app: ASGIApp, scope: Scope) -> None:
        try:
            await app(scope, self._receive, self._send)
        except asyncio.CancelledError:
            self._end(None)
            raise
        except Exception as error:  # noqa: BLE001 - raised where the response is read
            self._end(error)
        else:
            self._end(None)

    def _end(self, error: Exception | None) -> None:
        if error is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)
        with contextlib.suppress(RuntimeError):  # the worker's loop is closed: nobody reads
            self._worker_loop.call_soon_threadsafe(self._messages.put_nowait, None)

    async def _receive(self) -> Message:
        return await run_on_loop(self._worker_loop, self._read_body())

    async def _send(self, message: Message) -> None:
        await run_on_loop(self._worker_loop, self._put(message))

    # --- for the app, on the worker's loop

    async def _read_body(self) -> Message:
        if self._body_ended:
            await self._response_sent.wait()
            return {"type": "http.disconnect"}
        piece = await anext(self._body, None)
        self._body_ended = piece is None
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    async def _put(self, message: Message) -> None:
        await self._capacity.acquire()
        self._messages.put_nowait(message)
        if _is_last(message):
            self._response_sent.set()


def _is_last(message: Message) -> bool:
    return message["type"] == "http.response.body" and not message.get("more_body", False)


async def _wait_for_end(ended: Future[None]) -> None:
    try:
        await asyncio.wrap_future(ended)
    except Exception:
        # `messages` raises it if there was no complete response; otherwise it came too late.
        log.debug("app raised", exc_info=True)
