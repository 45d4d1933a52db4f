"""The API and a worker on a real port, on a loop in a thread of their own."""

from __future__ import annotations

import asyncio
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coatcheck.app import App
from coatcheck.blobs.blobs import Blobs
from coatcheck.blobs.files import FileBucket
from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.model.job import DEFAULT_TENANT, Job
from coatcheck.settings import Settings
from coatcheck.store.base import Store
from coatcheck.worker.worker import Worker

PATIENCE_S = 30.0
BRIEF_S = 0.02


class BriefEngine(Engine):
    """Waits are cut short: what comes out is the subject, not when."""

    async def wait(self, job_id: str, timeout: float, tenant: str = DEFAULT_TENANT) -> Job:
        return await super().wait(job_id, min(timeout, BRIEF_S), tenant)

    async def wait_for_event(self, job: Job, after: int, timeout: float) -> Job | None:
        return await super().wait_for_event(job, after, min(timeout, BRIEF_S))


class _Cut(Exception):
    pass


class CutStreams:
    """Ends every stream at its first sign of life, as a proxy may: else it goes on with its job."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_until_idle(message: Message) -> None:
            if message.get("body", b"").startswith(b":"):
                raise _Cut
            await send(message)

        try:
            await self._app(scope, receive, send_until_idle)
        except _Cut:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


class _Live:
    def __init__(self, make_store: Callable[[], Store], app: App) -> None:
        self._make_store = make_store
        self._app = app
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._stop: Callable[[], object] = lambda: None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(PATIENCE_S), "the server did not start"

    def stop(self) -> None:
        self._stop()
        self._thread.join(PATIENCE_S)

    async def _run(self) -> None:
        store = self._make_store()
        await store.open()
        folder = tempfile.TemporaryDirectory(prefix="live-")
        blobs = Blobs(FileBucket(Path(folder.name)))
        engine = BriefEngine(store, self._app.kinds, blobs=blobs)
        config = uvicorn.Config(
            CutStreams(create_http_app(engine)), lifespan="off", log_config=None
        )
        server = uvicorn.Server(config)
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()

        def stop() -> None:
            engine.release_waiters()
            stopped.set()
            server.should_exit = True

        self._stop = partial(loop.call_soon_threadsafe, stop)
        worker = Worker(engine, Settings(concurrency=4, drain_s=0))
        try:
            await asyncio.gather(
                server.serve(sockets=[self._listening]), worker.run(stopped, self._ready.set)
            )
        finally:
            await store.close()
            blobs.close()
            folder.cleanup()


@contextmanager
def live(make_store: Callable[[], Store], app: App) -> Iterator[str]:
    """Serve an app on a store, and say where."""
    server = _Live(make_store, app)
    server.start()
    try:
        yield server.url
    finally:
        server.stop()
