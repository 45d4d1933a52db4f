"""Slots and their queue: attempts start in order, and never twice."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import Counter
from typing import Any

import pytest

from coatcheck import App, Context
from coatcheck.clock import SystemClock
from coatcheck.model.job import Claim, Lease, Terms
from coatcheck.tracing import NO_TRACING
from coatcheck.worker.attempts.execution import Execution
from coatcheck.worker.slots.slots import HandlerSlots
from coatcheck.worker.steps.requests import WorkerServices

app = App()


@app.job
async def on_loop(ctx: Context) -> None: ...


@app.job
def in_thread(ctx: Context) -> None: ...


class ClockOnly:
    """The engine of executions whose handlers never run."""

    clock = SystemClock()
    tracing = NO_TRACING


SERVICES: Any = WorkerServices(ClockOnly(), *[None] * 5)  # type: ignore[arg-type]  # never called


def executions(count: int, kind: str = "on_loop") -> list[Execution]:
    return [
        Execution(
            Claim(
                Lease("t", f"{kind} {n}", 1), kind, "api", "q", "null", 1, Terms(), 0, None, None
            ),
            app.kinds[kind],
            SERVICES,
        )
        for n in range(count)
    ]


class Clock:
    """A clock that advances on demand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_attempts_start_in_order_up_to_the_number_of_slots(clock: Clock) -> None:
    backlog, jobs = HandlerSlots(3, clock), executions(5)
    backlog.enqueue(jobs)
    assert backlog.start_next() == jobs[:3]
    assert (backlog.free, len(backlog)) == (0, 2)
    assert backlog.start_next() == []
    assert backlog.finish([jobs[1]], "async") == [jobs[3]]
    assert backlog.finish([jobs[0], jobs[2]], "async") == [jobs[4]]
    assert (backlog.free, len(backlog)) == (1, 0)


def test_a_runner_gets_only_its_isolation_in_order(clock: Clock) -> None:
    backlog = HandlerSlots(2, clock)
    first, second, last = executions(3)
    [blocking] = executions(1, "in_thread")
    backlog.enqueue([first, second, blocking, last])
    backlog.start_next()
    assert backlog.finish([first], "async") == []
    assert backlog.finish([second], "async") == []
    assert backlog.start_next() == [blocking, last]


def test_a_removed_attempt_never_starts(clock: Clock) -> None:
    backlog, jobs = HandlerSlots(1, clock), executions(4)
    backlog.enqueue(jobs)
    backlog.start_next()
    assert backlog.remove(jobs[2])
    assert not backlog.remove(jobs[2])
    assert not backlog.remove(jobs[0]), "it has started"
    assert backlog.clear() == [jobs[1], jobs[3]]
    assert backlog.finish([jobs[0]], "async") == []
    assert backlog.start_next() == []


def test_the_queue_can_be_cut_from_a_match_on(clock: Clock) -> None:
    backlog, jobs = HandlerSlots(1, clock), executions(5)
    backlog.enqueue(jobs)
    backlog.start_next()
    assert backlog.remove_from(lambda each: False) == []
    assert backlog.remove_from(lambda each: each is jobs[3]) == jobs[3:]
    assert backlog.finish([jobs[0]], "async") == [jobs[1]]
    assert backlog.clear() == [jobs[2]]


def test_wait_and_run_times_are_measured(clock: Clock) -> None:
    backlog, jobs = HandlerSlots(1, clock), executions(2)
    assert backlog.longest_wait() is None
    backlog.enqueue(jobs)
    backlog.start_next()
    clock.now += 5
    assert backlog.longest_wait() == 5
    assert backlog.count_running_longer_than(4) == 1
    assert backlog.count_running_longer_than(6) == 0
    assert backlog.finish([jobs[0]], "async") == [jobs[1]]
    assert backlog.longest_wait() is None
    assert jobs[0].ended_at - jobs[0].started_at == 5
    assert jobs[1].started_at - jobs[1].claimed_at == 5
    assert backlog.count_running_longer_than(4) == 0


def test_an_attempt_is_either_started_or_removed(clock: Clock) -> None:
    slots, jobs = 4, executions(4_000)
    backlog = HandlerSlots(slots, clock)
    started: list[Execution] = []
    most = 0
    backlog.enqueue(jobs)

    def run(execution: Execution) -> None:
        nonlocal most
        following = [execution]
        while following:
            started.extend(following)
            most = max(most, slots - backlog.free)
            following = backlog.finish(following, "async")

    threads = [threading.Thread(target=run, args=(each,)) for each in backlog.start_next()]
    for thread in threads:
        thread.start()
    removed = [execution for execution in jobs[::-3] if backlog.remove(execution)]
    removed += backlog.clear()
    for thread in threads:
        thread.join()
    assert Counter(started + removed) == Counter(jobs)
    assert most <= slots
    assert backlog.free == slots


def test_a_finished_attempt_is_freed_without_garbage_collection() -> None:
    [execution] = executions(1)
    context = weakref.ref(execution.context)
    execution.context.end()
    gc.disable()
    try:
        del execution
        assert context() is None
    finally:
        gc.enable()
