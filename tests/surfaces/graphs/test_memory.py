"""A server's memory stays as it is while archives come in and graphs go out: on a real process."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from coatcheck import App
from coatcheck.blobs.open import blobs_for
from coatcheck.engine.engine import Engine
from coatcheck.model.outcome import Succeeded
from coatcheck.settings import Settings
from coatcheck.store.base import Settlement
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.surfaces.graphs.surface import GraphSurface
from tests.cli.processes import running
from tests.http.arrange import worker_info
from tests.http.test_upload_memory import memory_kb

SIZE, PIECE = 100_000_000, 1_000_000
MOST_GROWN_KB = 40_000
KEY = {"Idempotency-Key": "k"}


def form() -> Iterator[bytes]:
    head = 'Content-Disposition: form-data; name="file"; filename="code.zip"'
    yield f"--between\r\n{head}\r\n\r\n".encode()
    for number in range(SIZE // PIECE):
        yield bytes([number % 256]) * PIECE
    yield b"\r\n--between--\r\n"


def graph() -> Iterator[bytes]:
    yield b'{"nodes":["'
    for _ in range(SIZE // PIECE):
        yield b"n" * PIECE
    yield b'"],"edges":[],"stats":{}}'


async def finish(folder: Path) -> None:
    """Make a large graph of what is there to be done, as a worker would."""
    settings, app = Settings(database=f"sqlite:///{folder}/jobs.db"), App()
    app.use(GraphSurface({}))
    store, blobs = SQLiteStore(folder / "jobs.db"), blobs_for(settings)
    await store.open()
    try:
        engine = Engine(store, app.kinds, blobs=blobs)
        await store.workers.register_worker(worker_info("w"))
        [claim] = (await engine.claim("w", ["graph"], 1)).claims

        async def pieces() -> AsyncIterator[bytes]:
            for piece in graph():
                yield piece

        await engine.payload_store.save_artifact(
            claim.lease, "graph.json", pieces(), "application/json"
        )
        await engine.settle([Settlement(claim.lease, Succeeded("{}"))])
    finally:
        await store.close()
        blobs.close()


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_neither_an_archive_nor_a_graph_grows_the_server(tmp_path: Path) -> None:  # G11
    database = f"sqlite:///{tmp_path}/jobs.db"
    with running(
        "serve", "--port", "0", "--no-worker", folder=tmp_path, COATCHECK_DATABASE=database
    ) as server:
        url = f"{server.url()}/v1/graphs/call"
        httpx2.post(url, content=b"", headers=KEY, timeout=60)  # everything is loaded by now
        before = memory_kb(server.pid, "VmRSS")
        headers = {**KEY, "Content-Type": "multipart/form-data; boundary=between"}
        sent = httpx2.post(url, content=form(), headers=headers, timeout=100)
        assert sent.status_code == 202, sent.text
        assert memory_kb(server.pid, "VmHWM") - before < MOST_GROWN_KB
        _largest(tmp_path).unlink()  # it is not worth its place on the disk
        asyncio.run(finish(tmp_path))
        digest, beginning = hashlib.sha256(), b""
        with httpx2.stream("POST", url, headers=KEY, timeout=100) as answer:
            assert answer.status_code == 200
            for piece in answer.iter_bytes():
                beginning = beginning or piece[:200]
                digest.update(piece)
        said, _, _ = beginning.partition(b', "result": ')
        assert json.loads(said + b"}")["status"] == "completed"
        whole = hashlib.sha256(said + b', "result": ')
        for piece in graph():
            whole.update(piece)
        whole.update(b"}")
        assert digest.digest() == whole.digest()
        assert memory_kb(server.pid, "VmHWM") - before < MOST_GROWN_KB


def _largest(folder: Path) -> Path:
    files = [path for path in (folder / "blobs").rglob("*") if path.is_file()]
    return max(files, key=lambda path: path.stat().st_size)
