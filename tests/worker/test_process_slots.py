"""How many jobs a worker runs in processes at once, as seen in the store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from coatcheck import App
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.state import State
from coatcheck.store.base import JobFilter, Settlement

from . import process_app
from .both_stores import store
from .conftest import SETTINGS, working

__all__ = ["store"]
pytestmark = pytest.mark.anyio


@pytest.fixture
def app() -> App:
    return process_app.app


class SettleGate:
    """Holds the settles of an engine, and records whose have arrived."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self._engine = engine
        self._open = asyncio.Event()
        self._held: set[str] = set()
        self._changed = asyncio.Event()
        monkeypatch.setattr(engine, "settle", self._settle)

    async def _settle(self, settlements: Sequence[Settlement]) -> Any:
        self._held |= {settlement.lease.job_id for settlement in settlements}
        self._changed.set()
        await self._open.wait()
        return await type(self._engine).settle(self._engine, settlements)

    async def holds(self, job_id: str) -> None:
        async with asyncio.timeout(60):
            while job_id not in self._held:
                self._changed.clear()
                await self._changed.wait()

    def open(self) -> None:
        self._open.set()


async def running(engine: Engine, kind: str) -> set[str]:
    which = JobFilter(DEFAULT_TENANT, kind=kind, state=State.RUNNING)
    return {job.id for job in await engine.list_jobs(which)}


async def claimed(engine: Engine, job_id: str) -> None:
    async with asyncio.timeout(60):
        job = await engine.get(job_id)
        while job.state is State.QUEUED:
            job = await engine.wait_for_event(job, job.last_event, 60) or job


@pytest.mark.parametrize("slots", [1, 2])
async def test_a_slot_is_held_until_the_outcome_is_written(
    engine: Engine, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise one job too many would be running, from the next claim until that write."""
    gate = SettleGate(engine, monkeypatch)
    jobs = [await engine.submit(Submission("double", json.dumps(n))) for n in range(slots + 2)]
    async with working(engine, replace(SETTINGS, processes=slots)):
        first = {job.id for job in jobs[:slots]}
        for job_id in first:
            await gate.holds(job_id)
        # A job that needs no process is claimed by a later claim for all kinds.
        other = await engine.submit(Submission("on_the_loop"))
        await claimed(engine, other.id)
        assert await running(engine, "double") == first
        gate.open()
        for n, job in enumerate(jobs):
            ended = await engine.wait(job.id, 60)
            assert (ended.state, ended.result) == (State.SUCCEEDED, str(2 * n))


async def test_a_slot_is_free_after_an_outcome_that_cannot_be_written(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt that is not settled at all does not keep its slot either."""
    refused: list[str] = []

    async def settle(settlements: Sequence[Settlement]) -> Any:
        if not refused:
            refused.append(settlements[0].lease.job_id)
            raise ValueError("an outcome that no store takes")
        return await type(engine).settle(engine, settlements)

    monkeypatch.setattr(engine, "settle", settle)
    async with working(engine, replace(SETTINGS, processes=1)):
        first = await engine.submit(Submission("double", "1"))
        ended = await engine.wait(first.id, 60)
        assert ended.error is not None
        assert ended.error.code == "invalid-outcome"
        second = await engine.submit(Submission("double", "2"))
        assert (await engine.wait(second.id, 60)).result == "4"
