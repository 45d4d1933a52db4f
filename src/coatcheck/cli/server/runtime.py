"""The main functions of the processes: an API, a worker, or both on one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Any

import uvicorn

from coatcheck.app import App
from coatcheck.descriptors import current_budget, raise_limit
from coatcheck.engine import lifespan
from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.http.protocol.timeouts import TimeoutProtocol, close_silent
from coatcheck.http.surfaces.base import Surface
from coatcheck.settings import Settings
from coatcheck.tracing import tracing_from_environment
from coatcheck.ui.pages import Cockpit
from coatcheck.worker.attempts.runners import NewLoop
from coatcheck.worker.worker import Worker

try:
    import uvloop
except ImportError:  # not on this platform
    new_event_loop: NewLoop = asyncio.new_event_loop
else:
    new_event_loop = uvloop.new_event_loop

log = logging.getLogger(__name__)

# Threads release the GIL five times as often as by default: the writer thread needs it after each
# statement (docs/decisions/0003-worker-loops.md).
SWITCH_INTERVAL_S = 0.001
# In an API process the event loop must not wait for threads that process large batches.
API_SWITCH_INTERVAL_S = 0.0002
# One batch of jobs exceeds the default garbage collection threshold of 700 objects many times;
# collections took a fifth of a busy worker's time.
GC_THRESHOLD = 10_000
# The time that open requests have to finish after a stop signal.
API_GRACE_S = 5


def run_process(main: Coroutine[Any, Any, None]) -> None:
    """Run a process's main coroutine on the fastest available event loop."""
    raise_limit()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])
    gc.freeze()  # imported objects live forever; do not scan them
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main)


def surfaces_of(app: App) -> list[Surface]:
    """Return the surfaces that an app uses."""
    return [each for each in app.surfaces.values() if isinstance(each, Surface)]


@contextlib.asynccontextmanager
async def open_engine(app: App, settings: Settings) -> AsyncIterator[Engine]:
    """Configure an app's surfaces and open an engine for it."""
    surfaces = surfaces_of(app)
    for surface in surfaces:
        surface.configure(settings)
    try:
        sweeps = [surface.sweep for surface in surfaces]
        tracing = tracing_from_environment("coatcheck")
        async with lifespan.open_engine(app, settings, sweeps, tracing) as engine:
            yield engine
    finally:
        for surface in surfaces:
            await surface.close()


async def api_process(
    app: App,
    settings: Settings,
    listening: socket.socket,
    announce: Callable[[bool], None],
    *,
    has_worker: bool = False,
) -> None:
    """Serve HTTP until a stop signal."""
    async with open_engine(app, settings) as engine:
        server = _Server(app, engine, settings, announce, has_worker=has_worker)
        _tune_for_latency()
        with _on_stop_signal(lambda: _stop_server(server, engine)):
            await server.serve(sockets=[listening])


def _tune_for_latency() -> None:
    """Exclude loaded objects from garbage collection.

    A full collection would stop all responses for tens of milliseconds, several times a second
    under load.
    """
    sys.setswitchinterval(API_SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()


async def worker_process(app: App, settings: Settings) -> None:
    """Run a worker until a stop signal, then drain. Opens no port."""
    async with open_engine(app, settings) as engine:
        stop = asyncio.Event()
        with _on_stop_signal(stop.set):
            await Worker(engine, settings, new_loop=new_event_loop).run(stop)


async def single_process(
    app: App, settings: Settings, listening: socket.socket, announce: Callable[[bool], None]
) -> None:
    """Serve HTTP and run a worker in one process, until a stop signal."""
    async with open_engine(app, settings) as engine:
        server = _Server(app, engine, settings, announce, has_worker=True)
        stop = asyncio.Event()

        def stop_both() -> None:
            stop.set()
            _stop_server(server, engine)

        with _on_stop_signal(stop_both):
            worker = Worker(engine, settings, new_loop=new_event_loop)
            await asyncio.gather(server.serve(sockets=[listening]), worker.run(stop))


class _Server(uvicorn.Server):
    """A server that announces its start, closes idle connections and handles no signals."""

    def __init__(
        self,
        app: App,
        engine: Engine,
        settings: Settings,
        announce: Callable[[bool], None],
        *,
        has_worker: bool,
    ) -> None:
        surfaces = surfaces_of(app)
        super().__init__(
            uvicorn.Config(
                create_http_app(
                    engine,
                    settings.origins,
                    pages=not settings.is_production,
                    has_worker=has_worker,
                    surfaces=surfaces,
                    cockpit=Cockpit().endpoints,
                ),
                # uvicorn only calls it to create a protocol.
                http=partial(TimeoutProtocol, max_connections=current_budget().connections),  # type: ignore[arg-type]
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=API_GRACE_S,
            )
        )
        self._engine = engine
        self._announce = announce
        self._idle_closer: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._idle_closer = asyncio.create_task(close_silent(self.server_state.connections))
        self._announce(self._engine.authenticator.needs_key)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._idle_closer is not None:
            self._idle_closer.cancel()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


def _stop_server(server: uvicorn.Server, engine: Engine) -> None:
    engine.release_waiters()
    server.should_exit = True


@contextlib.contextmanager
def _on_stop_signal(stop: Callable[[], None]) -> Any:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
