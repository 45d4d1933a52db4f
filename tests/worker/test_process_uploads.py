"""`ctx.file` in a process, and the files of killed workers."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from coatcheck.blobs.blobs import Blobs
from coatcheck.blobs.files import FileBucket
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.model.job import Lease
from coatcheck.store.base import Store
from coatcheck.worker.attempts.scratch import Scratch

from . import process_app
from .conftest import working

pytestmark = pytest.mark.anyio


async def test_a_handler_in_a_process_reads_an_upload(store: Store, tmp_path: Path) -> None:
    blobs = Blobs(FileBucket(tmp_path / "blobs"))
    engine = Engine(store, process_app.app.kinds, blobs=blobs)
    taken = await engine.uploads.receive(b"hello", "greeting.txt")
    async with working(engine):
        named = f'{{"upload":"{taken.upload.id}"}}'
        job = await engine.submit(Submission("read_upload", named))
        ended = await engine.wait(job.id, 60)
    blobs.close()
    assert ended.result is not None, ended.error
    name, content, path = ended.result.strip('"').split(" ")
    assert (name, content) == ("greeting.txt", "hello")
    assert not await asyncio.to_thread(Path(path).exists), "the attempt has ended"


def test_files_of_a_dead_worker_are_removed(tmp_path: Path) -> None:
    lease = Lease("default", "job", 1)
    alive, dead = Scratch(tmp_path), Scratch(tmp_path)
    kept, left = alive.folder_of(lease, "up") / "file", dead.folder_of(lease, "up") / "file"
    for path in (kept, left):
        path.write_text("bytes")

    os.close(dead._lock)  # as the kernel does for a process that is killed

    assert Scratch(tmp_path).remove_leftovers() == 1
    assert kept.exists()
    assert not left.exists()
    alive.close()
    assert list(tmp_path.iterdir()) == []
