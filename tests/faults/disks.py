"""Disk faults of an SQLite file: a full disk, a file size limit, a torn WAL tail."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from coatcheck.errors import StoreUnavailable
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.testing.checker import RunRecord, Submit, read_records, violations_of

from .place import Place, sqlite_place
from .stage import NO_PROCESSES, Stage, Tally

UNDERNEATH = "unix"


class FullDisk(apsw.VFS):
    """A file system that can run out of room."""

    name = "full-disk"

    def __init__(self) -> None:
        self.full = False
        super().__init__(self.name, UNDERNEATH, makedefault=True)

    def xOpen(self, name: Any, flags: Any) -> apsw.VFSFile:  # noqa: N802 - named by SQLite
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, disk: FullDisk, name: Any, flags: Any) -> None:
        self._disk = disk
        super().__init__(UNDERNEATH, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - named by SQLite
        if self._disk.full:
            raise apsw.FullError("there is no room")
        super().xWrite(data, offset)


@contextlib.contextmanager
def full_disk() -> Iterator[FullDisk]:
    """Put every database that is opened meanwhile on a disk that can be full."""
    disk = FullDisk()
    try:
        yield disk
    finally:
        disk.unregister()


@contextlib.contextmanager
def small_files() -> Iterator[None]:
    """Let no file grow, as a limit of the file's size does."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


async def run_out_of_room(place: Place, *, times: int, seed: int) -> Tally:
    """Refuse every write for a while, over and over, while several submit at once."""
    stage = Stage("full disk, file-size limit", place, NO_PROCESSES, seed)
    with full_disk() as disk:
        async with stage.open():
            for number in range(times):
                await _submit_some(stage, refused=False)
                if number % 2:
                    with small_files():
                        await _submit_some(stage, refused=True)
                else:
                    disk.full = True
                    await _submit_some(stage, refused=True)
                    disk.full = False
                stage.tally.tried += 1
            await _submit_some(stage, refused=False)
            return await stage.check(ended=False)


async def _submit_some(stage: Stage, *, refused: bool) -> None:
    jobs = [stage.new_job("quick", n) for n in range(4)]
    now = stage.engine.clock.now()
    answers = await asyncio.gather(
        *(stage.store.jobs.submit(job, now) for job in jobs), return_exceptions=True
    )
    for job, answer in zip(jobs, answers, strict=True):
        assert answer is None or isinstance(answer, StoreUnavailable), answer
        assert (answer is not None) == refused
        stage.submits.append(Submit(job.id, answered=answer is None))


async def tear_tails(place: Place, *, times: int, seed: int) -> Tally:
    """Cut the WAL inside the write that nobody was answered yet, as a crash of the machine does."""
    stage = Stage("torn WAL tail", place, NO_PROCESSES, seed)
    wal = place.folder / "jobs.db-wal"
    async with stage.open():
        for number in range(times):
            await stage.submit_mix(2)
            before = _end_of(wal)
            unanswered = stage.new_job("quick", number)
            await stage.store.jobs.submit(unanswered, stage.engine.clock.now())
            after = _end_of(wal)
            submits = [*stage.submits, Submit(unanswered.id, answered=False)]
            torn = stage.random.randrange(before, after) if after > before else after
            await _check_copy(stage, submits, torn)
            stage.submits.append(Submit(unanswered.id))
            stage.tally.tried += 1
        violations = stage.tally.violations
        tally = await stage.check(ended=False)
        tally.violations += violations
        return tally


def _end_of(wal: Path) -> int:
    """Return where the log ends: room was made behind it, and it may have been longer once. Each of
    its frames has the salt of the head.
    """
    log = wal.read_bytes()
    salt, frame_bytes, end = log[16:24], 24 + 4_096, 32
    while log[end + 8 : end + 16] == salt:
        end += frame_bytes
    return end


async def _check_copy(stage: Stage, submits: list[Submit], length: int) -> None:
    """Open a copy whose WAL ends here, in garbage, and check that what was answered is in it."""
    copy = stage.place.folder / "copy"
    copy.mkdir()
    for name in ("jobs.db", "jobs.db-wal"):
        shutil.copy(stage.place.folder / name, copy / name)
    tail = (copy / "jobs.db-wal").read_bytes()[:length]
    garbage = stage.random.randbytes(stage.random.randrange(1, 9000))
    (copy / "jobs.db-wal").write_bytes(tail + garbage)
    store = SQLiteStore(Path(sqlite_place(copy).folder / "jobs.db"))
    await store.open()
    try:
        run = RunRecord(submits, await read_records(store, submits), ended=False)
        stage.tally.violations += violations_of(run)
    finally:
        await store.close()
    with closing(apsw.Connection(str(copy / "jobs.db"))) as outside:
        assert outside.execute("PRAGMA integrity_check").get == "ok"
    shutil.rmtree(copy)
