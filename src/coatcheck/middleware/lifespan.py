"""The lifespan protocol around an app that has one of its own, or none.

    server          here                      the wrapped app
    startup    ->   passed on            ->   starts
                    what is ours starts  <-   complete
    complete   <-
    shutdown   ->   what is ours stops
                    passed on            ->   stops
    complete   <-                        <-   complete

So a job finds the app started, and none is still running when the app stops. An app that fails to
start is heard, and nothing of ours begins. An app that raises at a lifespan scope before it has
said anything (Django's does) knows nothing of it: then only what is ours starts and stops.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from coatcheck.errors import CoatcheckError
from coatcheck.middleware.app_call import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

Do = Callable[[], Awaitable[None]]

_STARTUP, _SHUTDOWN = "lifespan.startup", "lifespan.shutdown"


class Lifespan:
    """One lifespan, from startup to shutdown."""

    def __init__(self, app: ASGIApp, start: Do, stop: Do) -> None:
        self._app = app
        self._start = start
        self._stop = stop

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a lifespan scope."""
        app = _AppLifespan(self._app, scope)
        await receive()
        failed = await app.startup()
        if failed is None:
            failed = await self._start_ours()
            if failed is not None:
                await app.shutdown()
        if failed is not None:
            await send({"type": f"{_STARTUP}.failed", "message": failed})
            return
        await send({"type": f"{_STARTUP}.complete"})
        await receive()
        await self._stop()
        failed = await app.shutdown()
        if failed is not None:
            await send({"type": f"{_SHUTDOWN}.failed", "message": failed})
            return
        await send({"type": f"{_SHUTDOWN}.complete"})

    async def _start_ours(self) -> str | None:
        try:
            await self._start()
        except CoatcheckError as error:
            return f"Coatcheck could not start: {error}"
        except Exception as error:
            # Raised, it would look to the server like an app that knows no lifespan.
            log.exception("Coatcheck could not start")
            return f"Coatcheck could not start: {type(error).__name__}: {error}"
        return None


class _AppLifespan:
    """The wrapped app's side of it: it is told one thing at a time, and waited for."""

    def __init__(self, app: ASGIApp, scope: Scope) -> None:
        self._told: asyncio.Queue[Message] = asyncio.Queue()
        self._said: asyncio.Queue[Message] = asyncio.Queue()
        self._task = asyncio.create_task(self._run(app, scope))
        self._has_spoken = False

    async def _run(self, app: ASGIApp, scope: Scope) -> None:
        await app(scope, self._told.get, self._said.put)

    async def startup(self) -> str | None:
        """Have the app start; return why it failed, where it did."""
        return await self._tell(_STARTUP)

    async def shutdown(self) -> str | None:
        """Have it stop, where it takes part at all."""
        if not self._has_spoken:
            return None
        failed = await self._tell(_SHUTDOWN)
        await asyncio.gather(self._task, return_exceptions=True)
        return failed

    async def _tell(self, what: str) -> str | None:
        self._told.put_nowait({"type": what})
        saying = asyncio.create_task(self._said.get())
        await asyncio.wait({saying, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not saying.done() and self._said.empty():
            saying.cancel()
            return self._went_silent(what)
        message = await saying
        self._has_spoken = True
        if message["type"] == f"{what}.failed":
            await asyncio.gather(self._task, return_exceptions=True)
            return str(message.get("message", "")) or "the app failed"
        return None

    def _went_silent(self, what: str) -> str | None:
        error = self._task.exception()
        if what == _STARTUP or error is None:
            log.debug("the wrapped app does not take part in the lifespan", exc_info=error)
            return None
        return f"{type(error).__name__}: {error}"
