"""The engine and the worker that run beside the wrapped app in each server process.

They are separate, as in `coatcheck serve`, in threads instead of processes. One engine is on the
server's loop and serves requests. The worker has a thread, a loop and an engine of its own, so an
endpoint that blocks the server's loop does not stop its heartbeats: otherwise the job would count
as an orphan and run a second time elsewhere. Only the app itself is called on the server's loop
(middleware/app_call.py).

A worker that ends with an error is restarted after a pause. When it is stopped, it lets its jobs
finish for the drain time and releases the rest without using up their attempt.
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

# Between a worker's error and its restart.
RESTART_S = 1.0


class WorkerThread:
    """A worker in a thread of its own."""

    def __init__(self, app: App, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._started: Future[None] = Future()  # an error if the worker could not start
        self._ended: Future[None] = Future()
        # A daemon: a server without lifespan support ends without telling us.
        self._thread = threading.Thread(target=self._run, name="coatcheck-worker", daemon=True)

    async def start(self) -> None:
        """Start the worker, and wait until it works; raises the error that prevented it."""
        self._thread.start()
        await asyncio.wrap_future(self._started)

    def begin_drain(self) -> None:
        """Start to drain the worker, without waiting for it."""
        with contextlib.suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(self._stop.set)

    async def stop(self) -> None:
        """Drain the worker, and wait until it has ended."""
        self.begin_drain()
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
                    await Worker(engine, self._settings).run(self._stop, self._set_started)
            except Exception as error:
                if not self._started.done():
                    self._started.set_exception(error)
                    return
                log.exception("worker failed: restarting it")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), RESTART_S)

    def _set_started(self) -> None:
        if not self._started.done():
            self._started.set_result(None)


class ServerRuntime:
    """The engine and the worker of one server process."""

    def __init__(self, app: App, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._resources = contextlib.AsyncExitStack()
        self._worker = WorkerThread(app, settings)
        self.engine: Engine

    async def start(self) -> None:
        """Open the engine and start the worker; raises the error that prevented it."""
        try:
            self.engine = await self._resources.enter_async_context(
                open_engine(self._app, self._settings)
            )
            await self._worker.start()
        except BaseException:
            await self._resources.aclose()
            raise

    def abandon(self) -> None:
        """Drain the worker without waiting: the loop of the engine ended without a shutdown."""
        self._worker.begin_drain()

    async def stop(self) -> None:
        """Release waiting callers, drain the worker, close the engine."""
        self.engine.release_waiters()
        await self._worker.stop()
        with contextlib.suppress(CoatcheckError):
            await self._resources.aclose()
