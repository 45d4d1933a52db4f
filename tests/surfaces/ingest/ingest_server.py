"""The surface in this process: the HTTP application, the engine and a worker."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2

from coatcheck import App
from coatcheck.cli.server.runtime import new_event_loop, open_engine
from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.model.kind import Backoff, Isolation
from coatcheck.settings import Settings
from coatcheck.surfaces.ingest.constants import KIND
from coatcheck.surfaces.ingest.surface import IngestSurface
from coatcheck.worker.failpoints import Failpoint, no_failpoint
from coatcheck.worker.worker import Worker
from tests.http.arrange import connect

PATIENCE_S = 100.0


@dataclass
class Ingest:
    """A server with the surface, and shortcuts for tests."""

    http: httpx2.AsyncClient
    engine: Engine
    settings: Settings

    async def send(self, *files: tuple[str, bytes], **fields: Any) -> httpx2.Response:
        """Submit files as a form."""
        headers = fields.pop("headers", {})
        data = {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in fields.items()
        }
        parts = [("files", (name, content)) for name, content in files]
        return await self.http.post("/v1/ingest", data=data, files=parts, headers=headers)

    async def finished(self, answer: httpx2.Response, **headers: str) -> dict[str, Any]:
        """Return a submitted job once it has finished."""
        assert answer.status_code in (200, 202), answer.text
        path = answer.headers["location"]
        async with asyncio.timeout(PATIENCE_S):
            while True:
                job = (await self.http.get(f"{path}?wait=30", headers=headers)).json()
                if job["finished_at"] is not None:
                    return dict(job)

    async def ingest_file(self, name: str, content: bytes | str, **fields: Any) -> dict[str, Any]:
        """Ingest one file and return the result of its job."""
        raw = content.encode() if isinstance(content, str) else content
        job = await self.finished(await self.send((name, raw), **fields))
        assert job["state"] == "succeeded", job
        return dict(job["result"])

    async def search(
        self, text: str, collection: str = "default", headers: Any = None, **query: Any
    ) -> list[dict[str, Any]]:
        """Search a collection and return the results."""
        answer = await self.http.get(
            f"/v1/collections/{collection}/search",
            params={"q": text, **query},
            headers=headers or {},
        )
        assert answer.status_code == 200, answer.text
        return list(answer.json()["results"])

    async def steps(self, job: Mapping[str, Any]) -> list[str]:
        """Return the names of a job's steps."""
        return [step.id.name for step in await self.engine.steps(job["id"])]


@contextlib.asynccontextmanager
async def ingest_at(
    settings: Settings,
    folder: Path,
    *,
    works: bool = True,
    failpoint: Failpoint = no_failpoint,
    app: App | None = None,
    isolation: Isolation = "process",
) -> AsyncIterator[Ingest]:
    """Serve the surface, by default with a worker that uses processes of its own."""
    app, surface = app or App(), IngestSurface()
    app.use(surface)
    # Do not wait for the retry backoff.
    changed = replace(app.kinds[KIND], backoff=Backoff(0, 0), isolation=isolation)
    app._kinds[KIND] = changed if isolation == "process" else replace(changed, memory=None)
    async with (
        open_engine(app, settings) as engine,
        connect(create_http_app(engine, surfaces=[surface])) as http,
        working(engine, settings, folder, failpoint) if works else contextlib.nullcontext(),
    ):
        yield Ingest(http, engine, settings)


@contextlib.asynccontextmanager
async def working(
    engine: Engine, settings: Settings, folder: Path, failpoint: Failpoint
) -> AsyncIterator[None]:
    stop, ready = asyncio.Event(), asyncio.Event()
    worker = Worker(
        engine, settings, new_loop=new_event_loop, scratch=folder / "scratch", failpoint=failpoint
    )
    running = asyncio.create_task(worker.run(stop, ready.set))
    await ready.wait()
    try:
        yield
    finally:
        stop.set()
        await running


def kill_readers() -> int:
    """Send SIGKILL to the processes that read documents; return their number."""
    killed = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            command = (entry / "cmdline").read_bytes()
            if parent == os.getpid() and b"coatcheck.worker.processes" in command:
                os.kill(int(entry.name), signal.SIGKILL)
                killed += 1
    return killed
