"""`ctx.artifact`: files that a job stores, with every kind of runner."""

from __future__ import annotations

import asyncio
import hashlib
import io
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coatcheck import App, Context, Retry
from coatcheck.blobs.blobs import Blobs
from coatcheck.blobs.files import FileBucket
from coatcheck.engine.engine import Engine
from coatcheck.errors import Conflict
from coatcheck.model.artifact import IN_ROW_BYTES, MOST_OF_A_JOB, TOO_MANY
from coatcheck.model.event import EventType
from coatcheck.model.job import Job
from coatcheck.model.state import State
from coatcheck.store.base import Store
from coatcheck.testing.inline import run_inline

from . import process_app
from .conftest import SETTINGS, working
from .job_control import ended, run, submit, until

pytestmark = pytest.mark.anyio

LARGE = b"x" * (IN_ROW_BYTES + 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
def engine(app: App, store: Store, folder: Path) -> Iterator[Engine]:
    blobs = Blobs(FileBucket(folder))
    yield Engine(store, app.kinds, blobs=blobs)
    blobs.close()


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def contents(engine: Engine, job: Job) -> dict[str, bytes]:
    found = {}
    for artifact in (await engine.get(job.id)).artifacts:
        pieces = await engine.payload_store.stream(artifact)
        found[artifact.name] = b"".join([piece async for piece in pieces])
        assert hashlib.sha256(found[artifact.name]).hexdigest() == artifact.sha256
        assert len(found[artifact.name]) == artifact.size
    return found


async def test_an_async_handler_stores_artifacts(app: App, engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "report.pdf"
    path.write_bytes(b"%PDF")

    @app.job
    async def report(ctx: Context) -> str:
        await ctx.artifact("report.pdf", path)
        await ctx.artifact("table", b"a,b", "text/csv; charset=utf-8")
        kept = await ctx.artifact("picture.png", io.BytesIO(b"PNG"))
        return str(kept.sha256)

    async with working(engine):
        job = await run(engine, "report")
    assert {each.name: each.content_type for each in job.artifacts} == {
        "picture.png": "image/png",
        "report.pdf": "application/pdf",
        "table": "text/csv; charset=utf-8",
    }
    assert await contents(engine, job) == {
        "picture.png": b"PNG",
        "report.pdf": b"%PDF",
        "table": b"a,b",
    }
    assert job.result == f'"{hashlib.sha256(b"PNG").hexdigest()}"'


async def test_an_artifact_can_be_written_with_the_outcome(
    app: App, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are one write. Other artifacts are written at once, and the last of a name counts."""
    written = []
    keep = engine.store.files.record_artifact

    async def counted(lease: Any, artifact: Any, *rest: Any) -> bool:
        written.append(artifact.name)
        return await keep(lease, artifact, *rest)

    monkeypatch.setattr(engine.store.files, "record_artifact", counted)

    @app.job
    async def report(ctx: Context) -> list[str]:
        for data in (b"not this", b"this"):
            await ctx.artifact("last.txt", data, at_end=True)
        await ctx.artifact("large.txt", b"small", at_end=True)
        await ctx.artifact("large.txt", LARGE, at_end=True)
        await ctx.artifact("small.txt", LARGE)
        await ctx.artifact("small.txt", b"small", at_end=True)
        return [each.name for each in (await engine.get(ctx.job_id)).artifacts]

    async with working(engine):
        job = await run(engine, "report")
    assert job.result == '["large.txt","small.txt"]'
    assert written == ["large.txt", "small.txt"]
    assert await contents(engine, job) == {
        "last.txt": b"this",
        "large.txt": LARGE,
        "small.txt": b"small",
    }
    assert run_inline(app, "report").artifacts.keys() == {"last.txt", "large.txt", "small.txt"}


async def test_artifacts_written_with_the_outcome_count_toward_the_limit(
    app: App, engine: Engine
) -> None:
    """One too many is rejected when it is named. Artifacts of a later attempt are written at
    once.
    """
    heard = []

    @app.job(retries=1)
    def many(ctx: Context) -> None:
        if ctx.attempt == 2:
            ctx.artifact("0", b"second", at_end=True)
            return
        for number in range(MOST_OF_A_JOB):
            ctx.artifact(str(number), b"first", at_end=number % 2 == 0)
        try:
            ctx.artifact("more", b"", at_end=True)
        except Conflict as error:
            heard.append(str(error))
        raise Retry(after=0)

    async with working(engine):
        job = await run(engine, "many")
    assert job.state is State.SUCCEEDED
    assert heard == [TOO_MANY]
    found = await contents(engine, job)
    assert found.pop("0") == b"second"
    assert set(found.values()) == {b"first"}


async def test_reports_are_written_before_the_outcome(
    app: App, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outcome waits, because a report after it would be rejected."""
    in_progress, ended, report = threading.Event(), threading.Event(), engine.report

    async def slow(*arguments: Any) -> bool:
        in_progress.set()
        await asyncio.to_thread(ended.wait, 30)
        await asyncio.sleep(0.05)  # enough time for an outcome that does not wait
        return await report(*arguments)

    monkeypatch.setattr(engine, "report", slow)

    @app.job
    def talk(ctx: Context) -> None:
        ctx.log("heard")
        assert in_progress.wait(30)
        ended.set()

    async with working(engine):
        job = await run(engine, "talk")
    assert job.state is State.SUCCEEDED
    assert [e.data for e in await engine.events(job.id) if e.type is EventType.LOG] == [
        '{"message": "heard"}'
    ]


async def test_a_def_handler_stores_artifacts(app: App, engine: Engine) -> None:
    @app.job
    def report(ctx: Context) -> int:
        return int(ctx.artifact("large.bin", b"x" * 5_000_000).size)

    async with working(engine):
        job = await run(engine, "report")
    assert job.result == "5000000"
    assert await contents(engine, job) == {"large.bin": b"x" * 5_000_000}


class TestInProcesses:
    @pytest.fixture
    def app(self) -> App:
        return process_app.app

    async def test_a_file_that_was_sent_in_part_is_dropped_with_its_attempt(
        self, engine: Engine
    ) -> None:
        async with working(engine, replace(SETTINGS, processes=1)):
            torn = await run(engine, "leave_a_torn_file", True)
            whole = await run(engine, "leave_a_torn_file", False)
        assert (torn.state, torn.artifacts) == (State.FAILED, ())
        assert whole.result == "10000000"
        assert await contents(engine, whole) == {"file": b"x" * 10_000_000}

    async def test_a_handler_in_a_process_leaves_files_behind(
        self, engine: Engine, tmp_path: Path
    ) -> None:
        numbers = b"1,2\n" * 400_000
        (tmp_path / "numbers.csv").write_bytes(numbers)
        async with working(engine, replace(SETTINGS, processes=1)):
            job = await run(engine, "leave_files", str(tmp_path))
            other = await run(engine, "leave_files_async", "page.html")
            refused = await run(engine, "leave_files_async", "../page.html")
        assert job.result == f"[3000000,{len(numbers)},{len(numbers)}]"
        assert await contents(engine, job) == {
            "again": numbers,
            "bytes.bin": b"x" * 3_000_000,
            "numbers.csv": numbers,
        }
        assert (other.result, other.artifacts[0].name) == ('"text/html"', "page.html")
        assert await contents(engine, other) == {"page.html": b"from a loop"}
        assert refused.error is not None
        assert "cannot name an artifact" in refused.error.message


async def test_a_later_attempt_replaces_the_artifact_and_its_bytes(
    app: App, engine: Engine, folder: Path
) -> None:
    @app.job
    async def report(ctx: Context) -> None:
        await ctx.artifact("large", LARGE + f"{ctx.attempt}".encode())
        await ctx.artifact("small", f"attempt {ctx.attempt}".encode())
        if ctx.attempt == 1:
            raise Retry(after=0)

    async with working(engine):
        job = await run(engine, "report")
    assert await contents(engine, job) == {"large": LARGE + b"2", "small": b"attempt 2"}
    await engine.payload_store.sweep()
    assert len(files(folder)) == 1, "what is small is in its row"


async def test_small_artifacts_are_stored_inline(
    app: App, engine: Engine, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "path").write_bytes(b"p" * IN_ROW_BYTES)

    @app.job
    async def report(ctx: Context) -> None:
        await ctx.artifact("path", tmp_path / "path")
        with (tmp_path / "path").open("rb") as file:
            file.seek(IN_ROW_BYTES - 3)
            await ctx.artifact("file", file)
        await ctx.artifact("bytes", memoryview(b"b" * IN_ROW_BYTES))
        await ctx.artifact("empty", b"")

    async with working(engine):
        job = await run(engine, "report")
    assert await contents(engine, job) == {
        "path": b"p" * IN_ROW_BYTES,
        "file": b"ppp",
        "bytes": b"b" * IN_ROW_BYTES,
        "empty": b"",
    }
    assert files(folder) == []


async def test_artifacts_are_deleted_with_their_job(app: App, engine: Engine, folder: Path) -> None:
    @app.job
    async def report(ctx: Context) -> None:
        await ctx.artifact("a", b"a")
        await ctx.artifact("b", b"b")

    async with working(engine):
        job = await run(engine, "report")
    assert (await engine.delete(job.id)).deleted.artifacts == 2
    assert files(folder) == []


HOSTILE: list[Any] = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "a\\b",
    "/etc/passwd",
    "x\0",
    "x\n",
    'x"; y',
    "x" * 10_240,
    "ünïcode",
    "x\u202egpj.exe",
    " x",
    None,
    7,
]


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: repr(name)[:20])
async def test_an_unsafe_artifact_name_is_rejected(name: Any) -> None:
    app = App()

    @app.job(retries=0)
    async def report(ctx: Context) -> None:
        await ctx.artifact(name, b"x")

    ended = run_inline(app, "report")
    assert ended.error is not None
    assert "cannot name an artifact" in ended.error.message
    assert len(ended.error.message) < 300
    assert ended.artifacts == {}


@pytest.mark.parametrize(
    "content_type",
    ["", "text", "text/", "text/html\r\nX: y", "text/html; x", "tëxt/html", "a/" * 99],
)
async def test_an_invalid_content_type_is_rejected(content_type: str) -> None:
    app = App()

    @app.job(retries=0)
    def report(ctx: Context) -> None:
        ctx.artifact("x", b"x", content_type)

    ended = run_inline(app, "report")
    assert ended.error is not None
    assert "is not a media type" in ended.error.message


async def test_text_is_not_a_valid_artifact() -> None:
    app = App()

    @app.job(retries=0)
    def report(ctx: Context) -> None:
        text: Any = "is this a path?"
        ctx.artifact("x", text)

    ended = run_inline(app, "report")
    assert ended.error is not None
    assert "not str" in ended.error.message


async def test_a_worker_with_a_stale_lease_stores_no_artifact(
    app: App, engine: Engine, folder: Path
) -> None:
    @app.job(retries=3)
    async def report(ctx: Context) -> None:
        if ctx.attempt == 1:
            await engine_loses_it()
        await ctx.artifact("report", f"attempt {ctx.attempt}".encode())

    async def engine_loses_it() -> None:
        async def lose() -> None:
            [worker] = await engine.store.workers.list_workers()
            await engine.store.workers.remove_worker(worker.info.id, None, engine.clock.now())

        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(lose(), loop))

    loop = asyncio.get_running_loop()
    async with working(engine, replace(SETTINGS, lease_s=3)):
        job = await run(engine, "report")
    assert job.state is State.SUCCEEDED
    assert await contents(engine, job) == {"report": f"attempt {job.attempt}".encode()}


async def test_a_suspended_handler_stores_no_artifact_while_it_unwinds(
    app: App, engine: Engine
) -> None:
    @app.job
    async def on_a_loop(ctx: Context) -> None:
        try:
            await ctx.wait_for("go")
        finally:
            await ctx.artifact("report", b"too early")

    @app.job
    def in_a_thread(ctx: Context) -> None:
        try:
            ctx.wait_for("go")
        finally:
            ctx.artifact("report", b"too early")

    async with working(engine):
        for kind in ("on_a_loop", "in_a_thread"):
            job_id = await submit(engine, kind)
            waiting = await until(engine, job_id, State.WAITING)
            assert waiting.artifacts == ()
            await engine.send(job_id, "go")
            job = await ended(engine, job_id)
            assert (job.state, len(job.artifacts)) == (State.SUCCEEDED, 1)


async def test_an_artifact_write_in_progress_delays_suspension(app: App, engine: Engine) -> None:
    writing, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    calls = 0

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            loop.call_soon_threadsafe(writing.set)
            go_on.wait()
            return super().read(size)

    @app.job
    async def report(ctx: Context) -> None:
        nonlocal calls
        calls += 1
        await asyncio.gather(ctx.wait_for("go"), ctx.artifact("report", Slow(b"slow")))

    async with working(engine):
        job_id = await submit(engine, "report")
        await writing.wait()
        assert (await engine.wait(job_id, 0.1)).state is State.RUNNING
        go_on.set()
        waiting = await until(engine, job_id, State.WAITING)
        assert await contents(engine, waiting) == {"report": b"slow"}
        await engine.send(job_id, "go")
        assert (await ended(engine, job_id)).state is State.SUCCEEDED
    assert calls == 2


@pytest.mark.parametrize("shape", ["async", "thread"])
async def test_an_artifact_of_a_step_is_written_once(app: App, engine: Engine, shape: str) -> None:
    written = 0

    async def keep_async(ctx: Context) -> int:
        nonlocal written
        written += 1
        return int((await ctx.artifact("report", b"dear")).size)

    def keep(ctx: Context) -> int:
        nonlocal written
        written += 1
        return int(ctx.artifact("report", b"dear").size)

    if shape == "async":

        @app.job(name="report")
        async def report_async(ctx: Context) -> int:
            size = await ctx.step(keep_async, ctx)
            await ctx.wait_for("go")
            return int(size)
    else:

        @app.job(name="report")
        def report(ctx: Context) -> int:
            size = ctx.step(keep, ctx)
            ctx.wait_for("go")
            return int(size)

    async with working(engine):
        job_id = await submit(engine, "report")
        await until(engine, job_id, State.WAITING)
        await engine.send(job_id, "go")
        job = await ended(engine, job_id)
    assert (job.result, written) == ("4", 1)
    assert await contents(engine, job) == {"report": b"dear"}


async def test_run_inline_collects_artifacts() -> None:
    app = App()

    @app.job
    async def report(ctx: Context) -> int:
        return int((await ctx.artifact("table.csv", io.BytesIO(b"a,b"))).size)

    ended = run_inline(app, "report", crash={1: 1})
    assert (ended.result, ended.attempts, ended.artifacts) == (3, 2, {"table.csv": b"a,b"})
