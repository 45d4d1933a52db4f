"""What runs beside the wrapped app in each server process: an engine that answers, and a worker.

They are apart as in `coatcheck serve`, in threads instead of processes. The engine that answers is
on the server's loop. The worker has a thread, a loop and an engine of its own, so that an endpoint
that blocks the server's loop keeps no heartbeat from being sent: its job would be taken for lost,
and be run a second time elsewhere. Only the app itself is called on the server's loop (calling.py).

A worker that ends by an error is started again, after a pause. Told to stop, it lets its jobs
finish for the drain time, and gives the rest back without consuming their attempt.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from concurrent.futures import Future

from coatcheck.app import App
from coatcheck.engine.engine import Engine
from coatcheck.engine.lifespan import open_engine
from coatcheck.errors import CoatcheckError
from coatcheck.settings import Settings
from coatcheck.worker.worker import Worker

log = logging.getLogger(__name__)

# Between the end of a worker by an error and the next.
PAUSE_S = 1.0


class WorkerThread:
    """A worker in a thread of its own."""

    def __init__(self, app: App, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._known: Future[None] = Future()  # the worker works, or could not begin
        self._ended: Future[None] = Future()
        # A daemon: a server that speaks no lifespan ends without a word to us.
        self._thread = threading.Thread(target=self._run, name="coatcheck-worker", daemon=True)

    async def start(self) -> None:
        """Start it, and return when it works; raises what kept it from that."""
        self._thread.start()
        await asyncio.wrap_future(self._known)

    def leave(self) -> None:
        """Have it drain, and wait for nothing."""
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._stop.set)

    async def stop(self) -> None:
        """Have it drain, and return when it has ended."""
        self.leave()
        await asyncio.wrap_future(self._ended)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._work())
        finally:
            self._ended.set_result(None)

    async def _work(self) -> None:
        while not self._stop.is_set():
            try:
                async with open_engine(self._app, self._settings) as engine:
                    await Worker(engine, self._settings).run(self._stop, self._is_known)
            except Exception as error:
                if not self._known.done():
                    self._known.set_exception(error)
                    return
                log.exception("the worker beside the app has ended; it is started again")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), PAUSE_S)

    def _is_known(self) -> None:
        if not self._known.done():
            self._known.set_result(None)


class ServerRuntime:
    """The engine and the worker of one server process, while they run."""

    def __init__(self, app: App, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._opened = contextlib.AsyncExitStack()
        self._worker = WorkerThread(app, settings)
        self.engine: Engine

    async def start(self) -> None:
        """Open the engine and start the worker; raises what stands against it."""
        try:
            self.engine = await self._opened.enter_async_context(
                open_engine(self._app, self._settings)
            )
            await self._worker.start()
        except BaseException:
            await self._opened.aclose()
            raise

    def leave(self) -> None:
        """Have the worker stop; the loop of the engine has ended without a word."""
        self._worker.leave()

    async def stop(self) -> None:
        """Let waiting callers go, drain the worker, close the engine."""
        self.engine.release_waiters()
        await self._worker.stop()
        with contextlib.suppress(CoatcheckError):
            await self._opened.aclose()
