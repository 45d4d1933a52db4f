"""The lifespan protocol around an app that may have a lifespan of its own.

    server          middleware                 wrapped app
    startup    ->   forwards              ->   starts
                    starts Coatcheck      <-   complete
    complete   <-
    shutdown   ->   stops Coatcheck
                    forwards              ->   stops
    complete   <-                         <-   complete

So a job finds the app started, and no job runs when the app stops. If the app fails to start, the
failure is passed on and Coatcheck does not start. An app that raises at a lifespan scope before it
sends anything (Django does) does not support lifespans: then only Coatcheck starts and stops.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from coatcheck.errors import CoatcheckError
from coatcheck.middleware.app_call import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

Action = Callable[[], Awaitable[None]]

_STARTUP, _SHUTDOWN = "lifespan.startup", "lifespan.shutdown"


class Lifespan:
    """One lifespan, from startup to shutdown."""

    def __init__(self, app: ASGIApp, start: Action, stop: Action) -> None:
        self._app = app
        self._start = start
        self._stop = stop

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a lifespan scope."""
        app = _AppLifespan(self._app, scope)
        await receive()
        failure = await app.startup()
        if failure is None:
            failure = await self._start_coatcheck()
            if failure is not None:
                await app.shutdown()
        if failure is not None:
            await send({"type": f"{_STARTUP}.failed", "message": failure})
            return
        await send({"type": f"{_STARTUP}.complete"})
        await receive()
        await self._stop()
        failure = await app.shutdown()
        if failure is not None:
            await send({"type": f"{_SHUTDOWN}.failed", "message": failure})
            return
        await send({"type": f"{_SHUTDOWN}.complete"})

    async def _start_coatcheck(self) -> str | None:
        try:
            await self._start()
        except CoatcheckError as error:
            return f"Coatcheck could not start: {error}"
        except Exception as error:
            # If raised, the server would take it for an app that does not support lifespans.
            log.exception("Coatcheck startup failed")
            return f"Coatcheck could not start: {type(error).__name__}: {error}"
        return None


class _AppLifespan:
    """The wrapped app's part of the lifespan: one event at a time, each awaited."""

    def __init__(self, app: ASGIApp, scope: Scope) -> None:
        self._to_app: asyncio.Queue[Message] = asyncio.Queue()
        self._from_app: asyncio.Queue[Message] = asyncio.Queue()
        self._task = asyncio.create_task(self._run(app, scope))
        self._is_supported = False

    async def _run(self, app: ASGIApp, scope: Scope) -> None:
        await app(scope, self._to_app.get, self._from_app.put)

    async def startup(self) -> str | None:
        """Start the app; return the failure, if any."""
        return await self._send_event(_STARTUP)

    async def shutdown(self) -> str | None:
        """Stop the app, if it supports lifespans; return the failure, if any."""
        if not self._is_supported:
            return None
        failure = await self._send_event(_SHUTDOWN)
        await asyncio.gather(self._task, return_exceptions=True)
        return failure

    async def _send_event(self, event: str) -> str | None:
        self._to_app.put_nowait({"type": event})
        reply = asyncio.create_task(self._from_app.get())
        await asyncio.wait({reply, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not reply.done() and self._from_app.empty():
            reply.cancel()
            return self._ended_without_reply(event)
        message = await reply
        self._is_supported = True
        if message["type"] == f"{event}.failed":
            await asyncio.gather(self._task, return_exceptions=True)
            return str(message.get("message", "")) or "the app failed"
        return None

    def _ended_without_reply(self, event: str) -> str | None:
        error = self._task.exception()
        if event == _STARTUP or error is None:
            log.debug("wrapped app has no lifespan", exc_info=error)
            return None
        return f"{type(error).__name__}: {error}"
