"""Waiters and jobs in random order: whoever waits for what has happened is told."""

from __future__ import annotations

import asyncio
import random
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from coatcheck.engine import waiters as module
from coatcheck.engine.waiters import Waiters
from coatcheck.errors import CoatcheckError
from coatcheck.model.job import DEFAULT_TENANT
from tests.engine.changing import ChangingStore, key, turns

JOBS = ("a", "b", "c")
PATIENCE_S = 20.0

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("wait for the end"), st.sampled_from(JOBS)),
        st.tuples(st.just("wait for a move"), st.sampled_from(JOBS)),
        st.tuples(st.just("wait briefly"), st.sampled_from(JOBS)),
        st.tuples(st.just("move"), st.sampled_from(JOBS)),
        st.tuples(st.just("end and delete"), st.sampled_from(JOBS)),
        st.tuples(st.just("end"), st.sampled_from(JOBS)),
        st.tuples(st.just("leave"), st.integers(0, 20)),
        st.tuples(st.just("store down"), st.none()),
        st.tuples(st.just("store up"), st.none()),
        st.tuples(st.just("turns"), st.integers(1, 12)),
    ),
    max_size=40,
)


class Run:
    """One history: waiters that come and go while jobs change under them."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.store = ChangingStore()
        self.store.slowness = lambda: chance.randrange(6)
        self.watch = Waiters(self.store.as_store)
        self.waiting: list[asyncio.Task[Any]] = []
        for job_id in JOBS:
            self.store.add(job_id)

    async def act(self, action: str, value: Any) -> None:
        there = value in self.store.rows
        job = self.store.rows.get(value)
        match action:
            case "wait for the end":
                self._begin(self.watch.wait_until_finished(DEFAULT_TENANT, value, 3600))
            case "wait for a move":
                known = 0 if job is None else job.last_event
                self._begin(self.watch.wait_for_event(key(value), known, 3600))
            case "wait briefly":
                self._begin(self.watch.wait_until_finished(DEFAULT_TENANT, value, 0.0005))
            case "move" if there and job is not None and not job.state.is_terminal:
                self.store.move(value)
            case "end" if there and job is not None and not job.state.is_terminal:
                self.store.end(value)
            case "end and delete" if there:
                self.store.end(value)
                self.store.delete(value)
            case "leave" if self.waiting:
                self.waiting[value % len(self.waiting)].cancel()
            case "store down" | "store up":
                self.store.is_down = action == "store down"
            case "turns":
                await turns(value)

    async def finish(self) -> None:
        """Have everything happen that is waited for; then nobody waits and nothing is left."""
        self.store.is_down = False
        for job_id, job in self.store.rows.items():
            if not job.state.is_terminal:
                self.store.end(job_id)
        async with asyncio.timeout(PATIENCE_S):
            answers = await asyncio.gather(*self.waiting, return_exceptions=True)
            while len(asyncio.all_tasks()) > 1:
                await turns(1)
        for answer in answers:
            known = (CoatcheckError, asyncio.CancelledError)
            assert not isinstance(answer, BaseException) or isinstance(answer, known), answer
        watch = self.watch
        assert (watch._waiters, watch._unread, watch._tasks) == ({}, set(), [])
        assert not self.store.has_subscribers

    def _begin(self, waiting: Any) -> None:
        self.waiting.append(asyncio.create_task(waiting))


@settings(max_examples=300, deadline=None)
@given(ACTIONS, st.integers(0, 2**32))
def test_whoever_waits_is_told_and_nothing_is_left(
    actions: list[tuple[str, Any]], seed: int
) -> None:
    async def live() -> None:
        run = Run(seed)
        for action, value in actions:
            await run.act(action, value)
        await run.finish()

    with (
        patch.object(module, "POLL_S", 3600.0),
        patch.object(module, "MAX_REST_S", 0.0002),
        patch.object(module, "LINGER_S", 0.0),
    ):
        asyncio.run(live())
