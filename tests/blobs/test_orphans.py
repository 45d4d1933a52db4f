"""A blob whose process died before it was referenced is swept."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from coatcheck.blobs.open import blobs_for
from coatcheck.clock import SystemClock
from coatcheck.engine.engine import Engine
from coatcheck.engine.maintenance.sweep import Sweeper
from coatcheck.engine.payloads.payloads import RESERVED_MS
from coatcheck.settings import Settings
from coatcheck.store.base import JobFilter
from coatcheck.store.open import store_for

pytestmark = pytest.mark.anyio

SUBMITTER = """
import asyncio, json, sys
from coatcheck import App, Context
from coatcheck.blobs.open import blobs_for
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.settings import load_settings
from coatcheck.store.open import store_for

app = App()

@app.job
async def length(ctx: Context, text: str) -> int:
    return len(text)

async def main():
    settings = load_settings()
    store = store_for(settings)
    await store.open()
    engine = Engine(store, app.kinds, blobs=blobs_for(settings))
    part_name, verb = sys.argv[1].split(".")
    part = getattr(store, part_name)
    struck = getattr(part, verb)

    async def strike(*arguments):
        if sys.argv[2] == "after":
            await struck(*arguments)
        print("here", flush=True)
        sys.stdin.read()

    setattr(part, verb, strike)
    await engine.submit(Submission("length", json.dumps("x" * 100_000)))

asyncio.run(main())
"""


class Later(SystemClock):
    def now(self) -> int:
        return super().now() + RESERVED_MS + 1


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def submit_and_die(settings: Settings, verb: str, when: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SUBMITTER, verb, when],
        env={"COATCHECK_DATABASE": settings.database},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        process.send_signal(signal.SIGKILL)


@pytest.mark.parametrize(
    ("verb", "when", "blobs_left", "jobs"),
    [
        ("files.reserve_blob", "after", 0, 0),
        ("jobs.submit", "before", 1, 0),
        ("jobs.submit", "after", 1, 1),
    ],
)
async def test_a_killed_submit_leaves_a_complete_job_or_nothing(
    tmp_path: Path, verb: str, when: str, blobs_left: int, jobs: int
) -> None:
    settings = Settings(database=f"sqlite:////{tmp_path}/jobs.db")
    submit_and_die(settings, verb, when)
    assert len(files(tmp_path / "blobs")) == blobs_left

    store, blobs = store_for(settings), blobs_for(settings)
    await store.open()
    soon, later = (Engine(store, {}, clock, blobs=blobs) for clock in (SystemClock(), Later()))
    await soon.payload_store.sweep()
    assert len(files(tmp_path / "blobs")) == blobs_left, "it may yet be named"
    sweeper = Sweeper(store, later.clock, lease_s=30, sweep_s=5, payload_store=later.payload_store)
    await sweeper.sweep()

    assert len(files(tmp_path / "blobs")) == jobs
    assert len(await store.jobs.list_jobs(JobFilter("default"))) == jobs
    assert await store.files.start_blob_removal(later.clock.now(), 10) == []
    await store.close()
    blobs.close()
