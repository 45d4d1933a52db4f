"""Two uploads under one idempotency key at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.engine.payloads.upload_idempotency import (
    COLLECTION,
    HELD_MS,
    RENEWED_AFTER_MS,
    UploadReservation,
)
from coatcheck.errors import KeyReused, UploadInProgress
from coatcheck.model.job import DEFAULT_TENANT
from tests.http.arrange import StoppedClock
from tests.http.problems import read_problem
from tests.http.test_uploads import engine, files, folder

__all__ = ["engine", "folder"]  # the fixtures

pytestmark = pytest.mark.anyio

KEY = {"Idempotency-Key": "once"}


class CrashError(Exception):
    """Stands for the end of the process."""


class Slow:
    """A body whose pieces the test sends one by one."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._begun = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self._begun.set()
            piece = await self._pieces.get()
            if not piece:
                return
            yield piece

    async def begun(self) -> None:
        async with asyncio.timeout(30):
            await self._begun.wait()

    async def send(self, *pieces: bytes) -> None:
        """Send pieces, and return when they were taken."""
        for piece in pieces:
            self._begun.clear()
            await self._pieces.put(piece)
            if piece:
                await self.begun()

    def uploaded_to(self, engine: Engine) -> asyncio.Task[object]:
        return asyncio.create_task(engine.uploads.receive(aiter(self), "a.txt", key="once"))


async def test_while_the_first_is_on_its_way_the_second_is_refused(
    http: httpx2.AsyncClient, engine: Engine, folder: Path
) -> None:
    slow = Slow()
    first = slow.uploaded_to(engine)
    await slow.begun()

    answer = await http.post("/v1/uploads?name=a.txt", content=b"file", headers=KEY)
    read_problem(answer, 409, "upload-under-way")
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.headers["connection"] == "close"

    await slow.send(b"fi", b"le", b"")
    taken = await first
    again = await http.post(
        "/v1/uploads?name=a.txt", content=b"file", headers={**KEY, "Content-Type": "text/plain"}
    )
    assert again.status_code == 200
    assert again.json()["id"] == taken.upload.id  # type: ignore[attr-defined]
    assert len(files(folder)) == 1


async def test_one_that_fails_leaves_its_key_to_the_next(engine: Engine, folder: Path) -> None:
    slow = Slow()
    first = slow.uploaded_to(engine)
    await slow.begun()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first

    assert not (await engine.uploads.receive(b"file", "a.txt", key="once")).replayed
    assert len(files(folder)) == 1


async def test_a_key_is_held_as_long_as_bytes_arrive_and_not_after_a_crash(
    engine: Engine, clock: StoppedClock, folder: Path
) -> None:
    slow = Slow()
    first = slow.uploaded_to(engine)
    await slow.begun()
    for _ in range(6):
        clock.milliseconds += RENEWED_AFTER_MS
        await slow.send(b"x" * 10)
    with pytest.raises(UploadInProgress):
        await engine.uploads.receive(b"x" * 60, "a.txt", key="once")

    clock.milliseconds += HELD_MS  # nothing was heard of it since
    second = await engine.uploads.receive(b"x" * 60, "a.txt", key="once")
    assert not second.replayed

    await slow.send(b"")  # and then it comes back to life
    late = await first
    assert late.replayed  # type: ignore[attr-defined]
    assert late.upload == second.upload  # type: ignore[attr-defined]
    assert len(files(folder)) == 1


async def test_one_that_was_overtaken_by_other_bytes_is_told_so(
    engine: Engine, clock: StoppedClock, folder: Path
) -> None:
    slow = Slow()
    first = slow.uploaded_to(engine)
    await slow.begun()
    clock.milliseconds += HELD_MS
    await engine.uploads.receive(b"other", "a.txt", key="once")
    await slow.send(b"file", b"")
    with pytest.raises(KeyReused):
        await first
    assert len(files(folder)) == 1


async def test_whoever_is_through_first_has_the_key(
    engine: Engine, clock: StoppedClock, folder: Path
) -> None:
    frozen, other = Slow(), Slow()
    first = frozen.uploaded_to(engine)
    await frozen.begun()
    clock.milliseconds += HELD_MS
    second = other.uploaded_to(engine)
    await other.begun()
    await frozen.send(b"file", b"")
    taken = await first
    await other.send(b"file", b"")
    late = await second
    assert (taken.replayed, late.replayed) == (False, True)  # type: ignore[attr-defined]
    assert late.upload == taken.upload  # type: ignore[attr-defined]
    assert len(files(folder)) == 1


async def test_a_crash_before_the_upload_is_on_record_binds_the_key_to_nothing(
    engine: Engine, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crash(*_: object) -> None:
        raise CrashError

    with monkeypatch.context() as broken:
        broken.setattr(engine.store.files, "put_upload", crash)
        broken.setattr(UploadReservation, "release", crash)
        with pytest.raises(CrashError):
            await engine.uploads.receive(b"file", "a.txt", key="once")
    assert await engine.store.records.get_record(DEFAULT_TENANT, COLLECTION, "once", clock.now())
    clock.milliseconds += HELD_MS
    taken = await engine.uploads.receive(b"file", "a.txt", key="once")
    assert await engine.uploads.get(taken.upload.id) == taken.upload
