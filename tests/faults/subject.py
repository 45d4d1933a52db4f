"""A forked process that faults are injected into: a worker, or an API.

At an armed failpoint it reports over its socket and stops, until it is told to continue or is
killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from dataclasses import dataclass, field
from typing import Any

from coatcheck import App
from coatcheck.cli.server import runtime
from coatcheck.cli.server.runtime import api_process, new_event_loop, open_engine, run_process
from coatcheck.engine import lifespan
from coatcheck.logs import configure_logging
from coatcheck.settings import Settings
from coatcheck.store.open import store_for
from coatcheck.worker.worker import Worker
from tests.store_proxy import StoreProxy

from . import isolated
from .app import app, surroundings

APPS = {"app": app, "isolated": isolated.app}
# What a process that stands still is told: go on to the next point, or stop no more.
GO, FOR_GOOD = b"!", b"."


@dataclass(frozen=True)
class Order:
    """What a process is to be: its part, its settings, and the points it stops at."""

    part: str
    folder: str
    settings: dict[str, Any]
    points: list[str] = field(default_factory=list)
    passes: int = 1  # it stops when it comes to one of its points for this time, and from then on
    told: list[str] = field(default_factory=list)  # points it only says that it passes
    app: str = "app"  # one of APPS


class Points:
    """The process's end of the socket over which it is watched."""

    def __init__(self, control: socket.socket, order: Order) -> None:
        self._control = control
        self._armed = set(order.points)
        self._told = set(order.told)
        self._passes = order.passes
        self._lock = threading.Lock()

    def __call__(self, point: str) -> None:
        """Pass a point, or stand still there."""
        if point in self._told:
            self.say(point)
        if point not in self._armed:
            return
        with self._lock:
            self._passes -= 1
            if self._passes > 0:
                return
            self.say(point)
            if self._control.recv(1) == FOR_GOOD:
                self._armed.clear()

    def say(self, what: str) -> None:
        """Tell the test where this process has come."""
        self._control.sendall(f"{what}\n".encode())


class WatchedStore(StoreProxy):
    """A store whose submits pass a point before and after they are made durable."""

    def __init__(self, store: Any, points: Points) -> None:
        super().__init__(store)
        self._points = points

    async def submit(self, *arguments: Any) -> Any:
        self._points("api.before_commit")
        answer = await self._store.jobs.submit(*arguments)
        self._points("api.committed")
        return answer

    async def submit_finished(self, *arguments: Any) -> None:
        self._points("api.before_commit")
        await self._store.jobs.submit_finished(*arguments)
        self._points("api.committed")


def be(order: Order, control: socket.socket, listening: socket.socket | None) -> None:
    """Play the part until told to stop by SIGTERM."""
    control.recv(1)  # the test watches from now on
    os.environ["FAULT_FOLDER"] = order.folder
    settings = Settings(**order.settings)
    configure_logging(settings)
    points = Points(control, order)
    surroundings.failpoint = points
    if order.part == "worker":
        run_process(_work(APPS[order.app], settings, points))
    else:
        assert listening is not None
        vars(lifespan)["store_for"] = lambda settings: WatchedStore(store_for(settings), points)
        run_process(api_process(app, settings, listening, lambda _: points.say("ready")))


async def _work(app: App, settings: Settings, points: Points) -> None:
    async with open_engine(app, settings) as engine:
        stop = asyncio.Event()
        with runtime._on_stop_signal(stop.set):
            worker = Worker(engine, settings, new_loop=new_event_loop, failpoint=points)
            await worker.run(stop, lambda: points.say("ready"))


def read_order(text: str) -> Order:
    return Order(**json.loads(text))
