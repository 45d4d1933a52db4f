"""The processes themselves: an API, a worker, or both on one loop."""

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

# A thread that computes gives up the interpreter five times as often as by default: the writer
# thread needs it back after each statement (docs/decisions/0003-worker-loops.md).
SWITCH_INTERVAL_S = 0.001
# In an API process the loop itself must not wait for threads that deal with large batches.
API_SWITCH_INTERVAL_S = 0.0002
# Python looks for unreachable cycles after 700 new objects by default, which a batch of jobs brings
# along many times over; it took a fifth of a busy worker's time.
LOOK_FOR_CYCLES_AFTER = 10_000
# Requests under way have this long once the API is told to stop.
API_GRACE_S = 5


def run_process(main: Coroutine[Any, Any, None]) -> None:
    """Run a process of ours to its end, on the fastest loop there is."""
    raise_limit()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.set_threshold(LOOK_FOR_CYCLES_AFTER, *gc.get_threshold()[1:])
    gc.freeze()  # what was imported stays, and need not be looked at again
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main)


def surfaces_of(app: App) -> list[Surface]:
    """Return the surfaces that an app uses."""
    return [each for each in app.surfaces.values() if isinstance(each, Surface)]


@contextlib.asynccontextmanager
async def open_engine(app: App, settings: Settings) -> AsyncIterator[Engine]:
    """Open an engine for an app, whose surfaces are told what the operator has set."""
    surfaces = surfaces_of(app)
    for surface in surfaces:
        surface.configure(settings)
    try:
        tidying = [surface.sweep for surface in surfaces]
        tracing = tracing_from_environment("coatcheck")
        async with lifespan.open_engine(app, settings, tidying, tracing) as engine:
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
    """Serve HTTP until SIGTERM."""
    async with open_engine(app, settings) as engine:
        server = _Server(app, engine, settings, announce, has_worker=has_worker)
        _tune_for_answering()
        with _on_stop_signal(lambda: _stop_server(server, engine)):
            await server.serve(sockets=[listening])


def _tune_for_answering() -> None:
    """Keep what is loaded by now from being looked over by every full collection, which would
    stop all answers for tens of milliseconds, several times a second under load.
    """
    sys.setswitchinterval(API_SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()


async def worker_process(app: App, settings: Settings) -> None:
    """Work until SIGTERM, then drain. Opens no port."""
    async with open_engine(app, settings) as engine:
        stop = asyncio.Event()
        with _on_stop_signal(stop.set):
            await Worker(engine, settings, new_loop=new_event_loop).run(stop)


async def single_process(
    app: App, settings: Settings, listening: socket.socket, announce: Callable[[bool], None]
) -> None:
    """Serve HTTP and work in one process, until SIGTERM."""
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
    """A server that says when it answers, closes silent connections, leaves the signals to us."""

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
                # A partial makes a protocol as well as its class does.
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
        self._closing_silent: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._closing_silent = asyncio.create_task(close_silent(self.server_state.connections))
        self._announce(self._engine.authenticator.needs_key)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._closing_silent is not None:
            self._closing_silent.cancel()
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
