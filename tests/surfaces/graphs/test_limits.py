"""Archives that are too much for a parser end their own job, and no other."""

from __future__ import annotations

import json
import os
import time
import zipfile
from pathlib import Path

import pytest

from coatcheck import App
from coatcheck.codegraph.summarizer import SMALL_BYTES
from coatcheck.model.event import EventType, JobEvent
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.settings import load_settings
from coatcheck.store.base import JobFilter
from coatcheck.surfaces.graphs import settings
from coatcheck.surfaces.graphs.surface import GraphSurface
from coatcheck.surfaces.graphs.views import status_of
from coatcheck.worker.slots.pool import make_slot_pools
from coatcheck.worker.slots.prefetch import Prefetch
from tests.http.arrange import worker_info

from .conftest import Graphs, Serve, import_first
from .zips import zipped

pytestmark = pytest.mark.anyio


@pytest.fixture
def crashing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser that takes its process along."""
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "tree_sitter_python.py").write_text(
        "import os\n\n\ndef language():\n    os.abort()\n"
    )
    import_first(folder, monkeypatch)


@pytest.mark.usefixtures("crashing")
async def test_a_parser_that_crashes(serve: Serve) -> None:
    async with serve() as graphs:
        said = await graphs.ended("call", zipped())
        assert (said["status"], "error" in said) == ("failed", True)
        after = await graphs.ended("call", zipped({"readme.txt": b"no code"}), key="next")
        assert (after["status"], after["result"]["stats"]["files"]) == ("completed", 0)


@pytest.mark.usefixtures("crashing")
async def test_a_parser_that_crashes_where_several_processes_read(serve: Serve) -> None:
    # More than is read in one process: the parser takes one of the pool's along.
    many = {f"m{n}.py": b"x = 1\n" * 20_000 for n in range(2 + SMALL_BYTES // 120_000)}
    async with serve() as graphs:
        said = await graphs.ended("call", zipped(many))
        assert said["status"] == "failed"
        if len(os.sched_getaffinity(0)) > 1:
            assert said["error"] == "analysis-failed: the analysis failed (BrokenProcessPool)"
        after = await graphs.ended("call", zipped({"readme.txt": b"no code"}), key="next")
        assert after["status"] == "completed"


async def test_an_archive_of_a_hundred_thousand_files(serve: Serve) -> None:
    code = {f"p{n // 100}/m{n}.py": b"def f(): pass\n" for n in range(2_000)}
    others = {f"data/{n // 1000}/{n}.txt": b"" for n in range(98_000)}
    async with serve() as graphs:
        first = await graphs.post("parse", zipped({**code, **others}, zipfile.ZIP_STORED))
        await graphs.engine.wait(first.json()["jobId"], 300)
        said = (await graphs.post("parse")).json()
        assert said["status"] == "completed", said["error"]
        assert said["result"]["stats"]["files"] == 2_000
        functions = [node for node in said["result"]["nodes"] if node["kind"] == "function"]
        assert len(functions) == 2_000


async def test_memory_limit_fails_the_job(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"".join(b"class C%d:\n    def f(self): return C%d().f()\n" % (n, n) for n in range(900))
    large = {f"m{number}.py": text for number in range(100)}
    monkeypatch.setenv(settings.MEMORY, "64MB")
    async with serve({settings.MEMORY: "64MB"}) as graphs:
        said = await graphs.ended("call", zipped(large))
        assert said["status"] == "failed"
        assert said["error"] == (
            "out-of-memory-limit: the analysis needs more than 64 MB of memory; raise "
            "COATCHECK_GRAPHS_MEMORY, or leave out calls, which take most of it"
        )
        after = await graphs.ended("call", zipped({"small.py": b"print(1)"}), key="next")
        assert after["status"] == "completed"


def test_removed_disk_limit_is_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    read = settings.GraphSettings.read({"COATCHECK_GRAPHS_DISK": "1MB"})
    assert read == settings.GraphSettings()
    assert "setting ignored" in caplog.text


async def test_a_job_is_kept_as_its_document_says(serve: Serve) -> None:  # G18-G21
    async with serve({"SUPERMODEL_JOB_TTL_BLOB_HOURS": "2"}, works=False) as graphs:
        await graphs.post("call", zipped())
        await graphs.engine.store.workers.register_worker(worker_info("w"))
        [claim] = (await graphs.engine.claim("w", ["graph"], 1)).claims
        terms = claim.terms
        assert (terms.max_attempts, terms.on_lost) == (1, "fail")
        assert terms.timeout_ms == 30 * 60_000
        assert terms.keep_succeeded_ms == 24 * 3_600_000
        assert terms.keep_failed_ms == 7 * 86_400_000
        assert terms.deadline_at is not None
        assert 0 <= terms.deadline_at - graphs.clock.now() <= 2 * 3_600_000


@pytest.mark.parametrize(
    ("environment", "slots"),
    [
        ({}, max(4, os.cpu_count() or 1)),
        ({"SUPERMODEL_JOB_CONCURRENCY": "3"}, 3),
        ({"SUPERMODEL_JOB_CONCURRENCY": "3", "COATCHECK_PROCESSES": "2"}, 2),
    ],
)
def test_a_worker_has_room_for_as_many_as_the_document_says(  # G15
    environment: dict[str, str], slots: int
) -> None:
    app = App()
    app.use(GraphSurface(environment))
    settings = load_settings({}, environment)
    pools = make_slot_pools(app.kinds.values(), settings, time.monotonic, Prefetch())
    share = pools["process"].share
    assert share is not None
    assert share.per_pair == slots  # of one tenant
    assert pools["process"].size == slots + 1  # the last is for another


def most_at_once(logs: list[list[JobEvent]]) -> int:
    """Return how many jobs were running at the same time, by what their logs say."""
    moves = []
    for log in logs:
        for event in log:
            if event.type is EventType.STATE:
                runs = json.loads(event.data)["state"] == "running"
                moves.append((event.at, runs))
    # At the same millisecond, an end comes before the claim that it made room for.
    running = most = 0
    for _, runs in sorted(moves):
        running += 1 if runs else -1
        most = max(most, running)
    return most


async def test_no_more_are_processed_at_once_than_the_document_says(serve: Serve) -> None:  # G15
    """As the jobs are listed while they run, and as their logs tell afterwards."""
    async with serve({"SUPERMODEL_JOB_CONCURRENCY": "4"}, processes=4) as graphs:
        for key in range(18):
            await graphs.post("call", zipped(), key=f"k{key}")
            if key % 6 == 5:  # six jobs at a time
                assert max(await watched(graphs)) <= 4
        jobs = await graphs.engine.list_jobs(JobFilter(DEFAULT_TENANT, kind="graph"))
        logs = [list(await graphs.engine.events(job.id)) for job in jobs]
        assert (len(logs), most_at_once(logs) <= 4) == (18, True)


async def watched(graphs: Graphs) -> list[int]:
    """Look at all jobs until they have ended; return how many were processing at each look."""
    seen = []
    while True:
        listed = await graphs.engine.list_jobs(JobFilter(DEFAULT_TENANT, kind="graph"))
        seen.append([status_of(job) for job in listed].count("processing"))
        if all(job.state.is_terminal for job in listed):
            return seen


def test_the_doctor_says_who_names_domains() -> None:
    [part] = GraphSurface({}).optional_parts()
    assert (settings.NAMING_URL in part.says, part.missing) == (True, "")
    naming = {settings.NAMING_URL: "http://models.example/v1", settings.NAMING_MODEL: "small"}
    [part] = GraphSurface(naming).optional_parts()
    assert "small at http://models.example/v1" in part.says
