"""Foreman on a real port, with a worker, in front of the tests' own Ollama."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx2
import ollama
import pytest

from coatcheck import App
from coatcheck.blobs.open import blobs_for
from coatcheck.cli.server.runtime import new_event_loop
from coatcheck.egress.policy import EgressPolicy
from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.model.job import Job
from coatcheck.settings import Settings
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.surfaces.foreman.surface import ForemanSurface
from coatcheck.worker.worker import Worker
from tests.store.template import migrated
from tests.surfaces.foreman.ollama_shim import Ollama, listening, serving_ollama

HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Foreman:
    """One server."""

    def __init__(self, url: str, http: httpx2.AsyncClient, engine: Engine, settings: Settings):
        self.url = url
        self.http = http
        self.engine = engine
        self._settings = settings
        self._clients: list[ollama.AsyncClient] = []

    @property
    def client(self) -> ollama.AsyncClient:
        """Ollama's own client, pointed here."""
        self._clients.append(ollama.AsyncClient(self.url))
        return self._clients[-1]

    async def close(self) -> None:
        for client in self._clients:
            await client.close()  # type: ignore[no-untyped-call]

    async def submit(self, model: str = "tiny", **fields: Any) -> str:
        """Submit a chat."""
        answer = await self.http.post("/jobs", json={"model": model, "messages": HELLO, **fields})
        assert answer.status_code == 202, answer.text
        assert set(answer.json()) == {"job_id"}
        return str(answer.json()["job_id"])

    async def show(self, job_id: str) -> dict[str, Any]:
        answer = await self.http.get(f"/jobs/{job_id}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def ended(self, job_id: str) -> dict[str, Any]:
        """Wait until a job is finished, and return it."""
        job = await self.engine.wait(job_id, 60)
        assert job.state.is_terminal, job
        return await self.show(job_id)

    async def until(self, job_id: str, holds: Callable[[Job], bool]) -> Job:
        """Wait until a condition holds for a job."""
        async with asyncio.timeout(60):
            job = await self.engine.get(job_id)
            while not holds(job):
                moved = await self.engine.wait_for_event(job, job.last_event, 60)
                assert moved is not None
                job = moved
            return job

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Run a worker within the block."""
        stop, ready = asyncio.Event(), asyncio.Event()
        worker = Worker(self.engine, self._settings, new_loop=new_event_loop)
        running = asyncio.create_task(worker.run(stop, ready.set))
        await ready.wait()
        try:
            yield
        finally:
            stop.set()
            await running


Serve = Callable[..., AbstractAsyncContextManager[Foreman]]


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Serve the queue in front of these Ollama servers, with a worker unless `works` is False."""

    @contextlib.asynccontextmanager
    async def serving(*urls: str, works: bool = True, **set_to: str) -> AsyncIterator[Foreman]:
        environment = {f"FOREMAN_{name.upper()}": value for name, value in set_to.items()}
        surface = ForemanSurface({"FOREMAN_OLLAMA_URL": ",".join(urls), **environment})
        settings = Settings(
            database=f"sqlite:///{tmp_path}/jobs.db", concurrency=8, drain_s=0, grace_s=1
        )
        surface.configure(settings)
        app = App()
        app.use(surface)
        store, blobs = SQLiteStore(migrated(tmp_path / "jobs.db")), blobs_for(settings)
        await store.open()
        guard = EgressPolicy("127.0.0.1")
        engine = Engine(store, app.kinds, blobs=blobs, egress=guard, pepper=lambda: b"p" * 32)
        delivering = asyncio.create_task(engine.dispatcher.run())
        http_app = create_http_app(engine, surfaces=[surface])
        try:
            async with listening(http_app, grace_s=5) as port:
                url = f"http://127.0.0.1:{port}"
                async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
                    foreman = Foreman(url, http, engine, settings)
                    async with foreman.working() if works else contextlib.nullcontext():
                        yield foreman
                    await foreman.close()
                engine.release_waiters()
        finally:
            delivering.cancel()
            await asyncio.gather(delivering, return_exceptions=True)
            await store.close()
            blobs.close()

    return serving


@pytest.fixture
async def upstream() -> AsyncIterator[Ollama]:
    async with serving_ollama() as server:
        yield server
