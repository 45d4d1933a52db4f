"""Settings and helpers for tests of handlers in processes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from coatcheck.engine.engine import Engine
from coatcheck.model.state import State
from coatcheck.worker.processes.pool import ProcessRunner
from coatcheck.worker.worker import Worker

from .conftest import SETTINGS
from .job_control import run

ONE = replace(SETTINGS, processes=1)


TWO = replace(SETTINGS, processes=2)


def pool_of(worker: Worker) -> ProcessRunner:
    pool = worker._runners["process"]
    assert isinstance(pool, ProcessRunner)
    return pool


async def pids_of(engine: Engine, worker: Worker) -> list[int]:
    """Return the ids of a worker's processes, once they have started."""
    await run(engine, "double", 0)
    return pool_of(worker).pids()


def result(job: Any) -> Any:
    assert job.state is State.SUCCEEDED, job
    return json.loads(job.result)
