"""`examples/bulk_load.py`: a real dlt pipeline on local files, run as a job."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from examples.bulk_load import Load, app

from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.model.event import EventType
from coatcheck.model.job import Job
from coatcheck.model.state import State
from coatcheck.settings import Settings
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.testing import run_inline
from coatcheck.worker.worker import Worker

ORDERS = [{"id": number, "cents": number * 100} for number in range(2_500)]
PEOPLE = [{"name": "Ada", "towns": ["London", "Paris"]}, {"name": "Alan", "towns": []}]


@pytest.fixture
def exports(tmp_path: Path) -> Path:
    folder = tmp_path / "exports"
    folder.mkdir()
    for name, rows in (("orders", ORDERS), ("people", PEOPLE)):
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines)
    return folder


def rows_of(into: Path, table: str) -> list[dict[str, Any]]:
    found = []
    for path in sorted((into / "tables" / table).iterdir()):
        content = path.read_bytes()
        text = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
        found += [json.loads(line) for line in text.splitlines()]
    return found


async def loaded(folder: Path, asked: Load) -> tuple[Job, list[str], list[Any]]:
    """Run the pipeline as a job; return the job, its steps and its progress."""
    store = SQLiteStore(folder / "jobs.db")
    await store.open()
    engine = Engine(store, app.kinds)
    stop, ready = asyncio.Event(), asyncio.Event()
    worker = Worker(engine, Settings(processes=1, drain_s=0), scratch=folder / "scratch")
    running = asyncio.create_task(worker.run(stop, ready.set))
    try:
        job = await engine.submit(Submission("bulk_load", asked.model_dump_json()))
        job = await engine.wait(job.id, 100)
        steps = [step.id.name for step in await engine.steps(job.id)]
        events = await engine.events(job.id)
        told = [json.loads(each.data) for each in events if each.type is EventType.PROGRESS]
        return job, steps, told
    finally:
        stop.set()
        await running
        await store.close()


def test_files_become_tables_with_progress(exports: Path, tmp_path: Path) -> None:
    into = tmp_path / "loaded"
    job, steps, told = asyncio.run(loaded(tmp_path, Load(folder=str(exports), into=str(into))))
    assert job.state is State.SUCCEEDED, job.error
    assert json.loads(job.result or "") == {"orders": 2_500, "people": 2}
    assert steps == ["extract", "normalize", "load"]
    assert sum(row["cents"] for row in rows_of(into, "orders")) == sum(
        row["cents"] for row in ORDERS
    )
    assert {row["name"] for row in rows_of(into, "people")} == {"Ada", "Alan"}
    assert {row["value"] for row in rows_of(into, "people__towns")} == {"London", "Paris"}
    assert job.progress is not None
    assert (job.progress.done, job.progress.total) == (2, 2)
    assert [each["phase"] for each in told if "phase" in each] == steps
    assert not (into / ".pipelines" / job.id).exists()


def test_a_crash_at_the_end_of_each_stage_costs_that_stage(exports: Path, tmp_path: Path) -> None:
    into = tmp_path / "loaded"
    asked = Load(folder=str(exports), into=str(into))
    crash = {1: "extract", 2: "normalize", 3: "load"}
    ran = run_inline(app, "bulk_load", asked, crash=crash, max_attempts=9)
    assert (ran.result, ran.crashes) == ({"orders": 2_500, "people": 2}, 3)
    assert len(rows_of(into, "orders")) == 2_500
    assert [step.id.name for step in ran.steps] == ["extract", "normalize", "load"]


def test_a_folder_without_files_is_an_error(tmp_path: Path) -> None:
    job, _, _ = asyncio.run(loaded(tmp_path, Load(folder=str(tmp_path), into=str(tmp_path / "x"))))
    assert job.error is not None
    assert job.error.code == "nothing-to-load"
