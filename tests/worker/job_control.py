"""Submitting jobs, waiting for them, and losing their workers."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

from coatcheck import App
from coatcheck.clock import SystemClock
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.model.event import EventType
from coatcheck.model.job import Job
from coatcheck.model.kind import Backoff
from coatcheck.model.state import State
from coatcheck.worker.worker import Worker

PATIENCE_S = 60


class Ahead(SystemClock):
    """A clock that can be set ahead."""

    ahead_ms = 0

    def now(self) -> int:
        return super().now() + self.ahead_ms


async def submit(engine: Engine, kind: str, value: object = None, **options: object) -> str:
    """Submit a job and return its id."""
    submitted = Submission(kind, json.dumps(value), **options)  # type: ignore[arg-type]
    return (await engine.submit(submitted)).id


async def ended(engine: Engine, job_id: str) -> Job:
    """Wait until a job has finished."""
    job = await engine.wait(job_id, PATIENCE_S)
    assert job.state.is_terminal, job
    return job


async def result_of(engine: Engine, job_id: str) -> object:
    """Wait for a job's success, and return its result."""
    job = await ended(engine, job_id)
    assert job.state is State.SUCCEEDED, job
    return json.loads(job.result or "")


async def until(engine: Engine, job_id: str, state: State, after: int = 0) -> Job:
    """Wait until a job is in a state, reached after this event."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            job = await engine.get(job_id)
            if job.state is state and job.last_event > after:
                return job
            await engine.wait_for_event(job, job.last_event, PATIENCE_S)


async def lose(engine: Engine, worker: Worker) -> None:
    """Take all jobs from a worker, as if it were dead. It registers anew when it notices."""
    held = await engine.store.workers.remove_worker(worker.id, None, engine.clock.now())
    assert held


def retry_at_once(app: App, kind: str) -> None:
    """Remove the backoff of a kind."""
    app._kinds[kind] = replace(app.kinds[kind], backoff=Backoff(0, 0))


async def said(engine: Engine, job_id: str, type_: EventType) -> list[object]:
    """Return the data of a job's events of one type."""
    events = await engine.events(job_id)
    return [json.loads(event.data) for event in events if event.type is type_]


async def run(engine: Engine, kind: str, value: object = None, **options: object) -> Job:
    """Submit a job and wait until it has finished."""
    submitted = Submission(kind, json.dumps(value), **options)  # type: ignore[arg-type]
    job = await engine.submit(submitted)
    ended = await engine.wait(job.id, 30)
    assert ended.state.is_terminal, ended
    return ended
