"""What becomes of an archive: nothing of it is left, whatever happens."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from coatcheck.errors import StoreUnavailable
from coatcheck.model.outcome import Succeeded
from coatcheck.model.transition import OVERRUN_MS
from coatcheck.settings import Settings
from coatcheck.store.base import Settlement
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.store.sqlite.workers import SQLiteWorkers
from coatcheck.worker import worker as worker_module
from coatcheck.worker.attempts.scratch import LOCK
from tests.cli.processes import COMMAND, environment
from tests.http.arrange import worker_info
from tests.payloads.canary import WORD, found_in

from .conftest import Graphs, Serve, import_first, until, working
from .zips import zipped

pytestmark = pytest.mark.anyio

HOUR_MS = 3_600_000
# The word is everywhere that is neither a name nor a type.
SECRETIVE = f'''\
"""{WORD}"""
# {WORD}
import os


def hide(what="{WORD}", *, how: "str" = f"{WORD}"):
    """{WORD}"""
    text = "{WORD}"
    return os.environ["{WORD}"], text, lambda: "{WORD}", f"{{what}} {WORD}"


class Hidden:
    """{WORD}"""

    table = {{"{WORD}": "{WORD}"}}

    def method(self, key=b"{WORD}"):
        return hide("{WORD}")
'''.encode()
BROKEN = f'def broken(:\n    "{WORD}"\n  {WORD}\n'.encode()
# Stored as it is, so that the word can be found where it is.
ARCHIVE = zipped(
    {"a.py": SECRETIVE, "broken.py": BROKEN, "notes.txt": WORD.encode(), "b.js": SECRETIVE},
    zipfile.ZIP_STORED,
)


def left_in(folder: Path) -> list[str]:
    return [name for name in found_in(folder) if not name.startswith("given")]


def files_in(scratch: Path) -> list[Path]:
    """Return what workers have put there for their jobs, without the locks that they hold."""
    found = (Path(folder, name) for folder, _, names in os.walk(scratch) for name in names)
    return [path for path in found if path.suffix != LOCK]


async def test_after_a_graph_is_made(
    serve: Serve, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:  # G26
    async with serve() as graphs:
        said = await graphs.ended("all", ARCHIVE)
        assert said["status"] == "completed", said
        assert said["result"]["stats"]["files"] >= 1
        assert WORD not in str(said)
        await graphs.sweep()
        assert left_in(tmp_path) == []  # while the job, and the worker, are still there
    assert left_in(tmp_path) == []
    assert WORD not in "".join(capfd.readouterr())


async def test_after_it_could_not_be_made(serve: Serve, tmp_path: Path) -> None:  # G25
    async with serve() as graphs:
        broken = ARCHIVE.replace(b"Hidden", b"hidden", 1)  # its sum is wrong
        said = await graphs.ended("call", broken)
        assert said["error"].startswith("archive-damaged: 'a.py'")
        await graphs.sweep()
        assert left_in(tmp_path) == []


async def test_after_an_analysis_that_failed_with_its_text(
    serve: Serve, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The process that reads imports this instead of what would be found first.
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "tree_sitter_python.py").write_text(
        f'def language():\n    raise ValueError("stumbled over {WORD}")\n'
    )
    import_first(folder, monkeypatch)
    async with serve() as graphs:
        said = await graphs.ended("call", ARCHIVE)
        assert said["error"] == "analysis-failed: the analysis failed (ValueError)"
        await graphs.sweep()
        assert left_in(tmp_path) == []
    assert WORD not in "".join(capfd.readouterr())


async def test_when_it_waited_too_long(serve: Serve, tmp_path: Path) -> None:  # G10, G14, G22
    async with serve(works=False) as graphs:
        await graphs.post("call", ARCHIVE)
        graphs.clock.ahead_ms = HOUR_MS - 60_000
        await graphs.sweep()
        assert (await graphs.post("call")).json()["status"] == "pending"
        assert left_in(tmp_path)
        graphs.clock.ahead_ms = HOUR_MS + 1000
        await graphs.engine.store.workers.register_worker(worker_info("w"))
        assert (await graphs.engine.claim("w", ["graph"], 1)).claims == []  # G14
        await graphs.sweep()
        said = (await graphs.post("call")).json()
        assert (said["status"], said["error"][:9]) == ("failed", "expired: ")
        assert left_in(tmp_path) == []
        await graphs.sweep()  # G32: by anybody, any number of times


async def test_its_run_ends_before_its_time_does(serve: Serve) -> None:  # G21
    async with serve(works=False) as graphs:
        await graphs.post("call", ARCHIVE)
        graphs.clock.ahead_ms = HOUR_MS - 600_000
        await graphs.engine.store.workers.register_worker(worker_info("w"))
        [claim] = (await graphs.engine.claim("w", ["graph"], 1)).claims
        now = graphs.clock.now()
        assert claim.terms.timeout_ms == 30 * 60_000
        assert claim.terms.deadline_at is not None
        assert 0 < claim.terms.deadline_at - now <= 600_000


async def test_when_its_worker_does_not_end_it(serve: Serve, tmp_path: Path) -> None:  # G21
    async with serve(works=False) as graphs:
        await graphs.post("call", ARCHIVE)
        await graphs.engine.store.workers.register_worker(worker_info("w"))
        [claim] = (await graphs.engine.claim("w", ["graph"], 1)).claims
        graphs.clock.ahead_ms = HOUR_MS + 1000
        await graphs.sweep()
        assert (await graphs.post("call")).json()["status"] == "processing"  # it may be stopping
        assert left_in(tmp_path)
        graphs.clock.ahead_ms = HOUR_MS + OVERRUN_MS + 1000
        await graphs.sweep()
        said = (await graphs.post("call")).json()
        assert (said["status"], said["error"][:9]) == ("failed", "timeout: ")
        assert left_in(tmp_path) == []
        late = await graphs.engine.settle([Settlement(claim.lease, Succeeded("{}"))])
        assert late == [False]
        assert (await graphs.post("call")).json() == said


async def test_while_its_end_cannot_be_written_the_archive_is_kept_for_the_sweep(  # G25
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused, write = asyncio.Event(), SQLiteWorkers.settle

    async def settle(*_: object) -> list[bool]:
        refused.set()
        raise StoreUnavailable("switched off")

    monkeypatch.setattr(worker_module, "LAST_WRITES_S", 0.2)
    async with serve(works=False) as graphs:
        await graphs.post("call", ARCHIVE)
        monkeypatch.setattr(SQLiteWorkers, "settle", settle)
        async with working(graphs.engine, Settings(processes=1, drain_s=60), tmp_path):
            await asyncio.wait_for(refused.wait(), 60)
            await graphs.sweep()
            assert (await graphs.post("call")).json()["status"] == "processing"
            assert left_in(tmp_path)
        monkeypatch.setattr(SQLiteWorkers, "settle", write)
        said = (await graphs.post("call")).json()  # its worker is gone, and could not say how
        assert (said["status"], said["error"][:6]) == ("failed", "lost: ")
        await graphs.sweep()
        assert left_in(tmp_path) == []


async def test_a_crash_between_the_archive_and_its_job(serve: Serve, tmp_path: Path) -> None:
    async with serve(works=False) as graphs:
        uploads = graphs.engine.uploads
        await uploads.receive(ARCHIVE, "a.zip", "application/zip", kept_ms=HOUR_MS)
        graphs.clock.ahead_ms = HOUR_MS - 60_000
        await graphs.sweep()
        assert left_in(tmp_path)
        graphs.clock.ahead_ms = HOUR_MS + 1000
        await graphs.sweep()
        assert left_in(tmp_path) == []


@pytest.fixture
def large(tmp_path: Path) -> bytes:
    """An archive that takes a while, so that its worker can be killed over it."""
    return zipped({f"p/m{number}.py": SECRETIVE * 12 for number in range(400)}, zipfile.ZIP_STORED)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = _start_worker(tmp_path)
    yield process
    process.kill()
    process.wait()


def _start_worker(folder: Path, **settings: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, "worker"],
        cwd=folder,
        env=environment(
            COATCHECK_DATABASE=f"sqlite:///{folder}/jobs.db",
            TMPDIR=str(folder / "scratch"),
            **settings,
        ),
        stderr=subprocess.DEVNULL,
    )


async def test_a_worker_that_is_stopped_gives_it_back(
    serve: Serve, tmp_path: Path, large: bytes
) -> None:
    async with serve() as graphs:
        job_id = (await graphs.post("all", large)).json()["jobId"]
        await _until_read(graphs, job_id)
    async with serve() as graphs:  # which has its archive still, and its one attempt
        await graphs.engine.wait(job_id, 60)
        assert (await graphs.post("all")).json()["status"] == "completed"
        assert (await graphs.engine.get(job_id)).attempt == 1
        await graphs.sweep()
    assert left_in(tmp_path) == []


async def test_after_its_worker_was_killed_over_it(
    serve: Serve, tmp_path: Path, worker: subprocess.Popen[bytes], large: bytes
) -> None:  # G25, G30
    async with serve(works=False) as graphs:
        job_id = (await graphs.post("all", large)).json()["jobId"]
        copies = tmp_path / "scratch"
        await _until_read(graphs, job_id)
        assert [path for path in copies.rglob("*") if path.is_file() and path.stat().st_size]
        os.kill(worker.pid, signal.SIGKILL)
        await asyncio.to_thread(worker.wait)
        await graphs.sweep()  # whose store can tell that the worker is dead
        said = (await graphs.post("all")).json()
        assert (said["status"], said["error"][:6]) == ("failed", "lost: ")
        await graphs.sweep()
        assert [name for name in left_in(tmp_path) if not name.startswith("scratch")] == []
        following = _start_worker(tmp_path)  # which sweeps what the other left on the disk
        try:
            await until(lambda: not files_in(copies))
        finally:
            following.terminate()
            await asyncio.to_thread(following.wait)
    assert left_in(tmp_path) == []


async def test_any_worker_removes_what_another_left_when_it_was_killed(
    serve: Serve, tmp_path: Path, worker: subprocess.Popen[bytes], large: bytes
) -> None:  # G25
    async with serve(works=False) as graphs:
        job_id = (await graphs.post("all", large)).json()["jobId"]
        copies = tmp_path / "scratch"
        await _until_read(graphs, job_id)
        other = _start_worker(tmp_path, COATCHECK_SWEEP_S="0.2")
        try:
            async with asyncio.timeout(60):
                while len(await graphs.engine.store.workers.list_workers()) < 2:  # noqa: ASYNC110 - no signal
                    await asyncio.sleep(0.01)
            assert files_in(copies), "in use, and left alone"
            os.kill(worker.pid, signal.SIGKILL)
            await until(lambda: not files_in(copies))
        finally:
            other.terminate()
            await asyncio.to_thread(other.wait)


async def _until_read(graphs: Graphs, job_id: str) -> None:
    """Wait until files are being read."""
    assert isinstance(graphs.engine.store, SQLiteStore)
    async with asyncio.timeout(60):
        while True:
            job = await graphs.engine.get(job_id)
            assert not job.state.is_terminal, job.error
            if job.phase == "reading":
                return
            await asyncio.sleep(0.01)
