"""Waiting for jobs: everybody is woken, one read serves them all, nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from coatcheck.engine import waiters as module
from coatcheck.engine.waiters import Waiters
from coatcheck.errors import Gone, StoreUnavailable
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.state import State
from tests.engine.changing import ChangingStore, key, turns

pytestmark = pytest.mark.anyio

PATIENCE_S = 20.0
FOREVER_S = 3600.0


@pytest.fixture(autouse=True)
def no_net(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wake-up that is missed is missed for good."""
    monkeypatch.setattr(module, "POLL_S", FOREVER_S)
    monkeypatch.setattr(module, "MAX_REST_S", 0.001)
    monkeypatch.setattr(module, "LINGER_S", 0.0)


@pytest.fixture
def store() -> ChangingStore:
    return ChangingStore()


@pytest.fixture
def watch(store: ChangingStore) -> Waiters:
    return Waiters(store.as_store)


def begin(waiting: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.create_task(waiting)


async def settle(store: ChangingStore) -> None:
    """Return when the waiters that have begun are registered and were looked at."""
    looks = store.reads["get_many"]
    async with asyncio.timeout(PATIENCE_S):
        while store.reads["get_many"] == looks:
            await turns(1)
        await turns(10)


async def test_a_waiter_is_woken_by_the_end_and_not_by_other_moves(
    store: ChangingStore, watch: Waiters
) -> None:
    store.add("a")
    waiting = begin(watch.wait_until_finished(DEFAULT_TENANT, "a", FOREVER_S))
    await settle(store)

    store.move("a", state=State.RUNNING)
    await settle(store)
    assert not waiting.done()

    store.end("a")
    async with asyncio.timeout(PATIENCE_S):
        assert (await waiting).state is State.SUCCEEDED


async def test_a_waiter_for_an_event_is_woken_by_the_next_one(
    store: ChangingStore, watch: Waiters
) -> None:
    store.add("a")
    waiting = begin(watch.wait_for_event(key("a"), 2, FOREVER_S))
    await settle(store)

    store.move("a")  # the second, which it knows
    await settle(store)
    assert not waiting.done()

    store.move("a")
    async with asyncio.timeout(PATIENCE_S):
        assert (await waiting).last_event == 3


async def test_what_a_job_says_on_the_way_is_not_read_for_those_who_wait_for_its_end(
    store: ChangingStore, watch: Waiters
) -> None:
    store.add("a")
    waiting = begin(watch.wait_until_finished(DEFAULT_TENANT, "a", FOREVER_S))
    await settle(store)
    reads = store.reads["get_many"]

    store.move("a")
    await turns(100)
    assert store.reads["get_many"] == reads

    following = begin(watch.wait_for_event(key("a"), 2, FOREVER_S))
    await settle(store)
    store.move("a")
    async with asyncio.timeout(PATIENCE_S):
        assert (await following).last_event == 3
        assert not waiting.done()
        store.end("a")
        await waiting


async def test_a_change_before_the_waiter_was_registered_is_not_missed(
    store: ChangingStore, watch: Waiters
) -> None:
    store.add("a")
    store.end("a")
    async with asyncio.timeout(PATIENCE_S):
        found = await watch.wait_for_event(key("a"), 2, FOREVER_S)
    assert found is not None
    assert found.state is State.SUCCEEDED


async def test_a_job_that_ends_while_it_is_looked_at_is_looked_at_again(
    store: ChangingStore, watch: Waiters
) -> None:
    store.add("a")
    store.slowness = lambda: 50
    waiting = begin(watch.wait_for_event(key("a"), 1, FOREVER_S))
    while not store.reads["get_many"]:
        await turns(1)
    store.end("a")  # the look that is under way began before this

    async with asyncio.timeout(PATIENCE_S):
        assert (await waiting).last_event == 2


async def test_a_time_that_runs_out_is_answered_with_the_job_as_it_stands(
    store: ChangingStore, watch: Waiters
) -> None:
    job = store.add("a")
    assert await watch.wait_until_finished(DEFAULT_TENANT, "a", 0.001) == job
    assert await watch.wait_until_finished(DEFAULT_TENANT, "a", 0) == job
    assert await watch.wait_for_event(key("a"), 1, 0.001) is None


async def test_a_thousand_waiters_of_one_change_cost_one_read(
    store: ChangingStore, watch: Waiters
) -> None:
    store.add("a")
    waiting = [begin(watch.wait_for_event(key("a"), 1, FOREVER_S)) for _ in range(1_000)]
    await settle(store)
    assert sum(store.reads.values()) == 1, "those who come together are looked at together"

    store.move("a")
    async with asyncio.timeout(PATIENCE_S):
        found = await asyncio.gather(*waiting)

    assert {job.last_event for job in found} == {2}
    assert sum(store.reads.values()) == 2


async def test_waiters_of_many_jobs_share_a_read_too(store: ChangingStore, watch: Waiters) -> None:
    waiting = []
    for number in range(500):
        store.add(str(number))
        waiting.append(begin(watch.wait_for_event(key(str(number)), 1, FOREVER_S)))
    await settle(store)
    for number in range(500):
        store.move(str(number))

    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*waiting)

    assert sum(store.reads.values()) <= 4
    assert max(store.asked) == 500


async def test_those_who_come_later_do_not_have_everybody_read_again(
    store: ChangingStore, watch: Waiters
) -> None:
    for number in range(100):
        store.add(str(number))
    early = [begin(watch.wait_for_event(key(str(n)), 1, FOREVER_S)) for n in range(99)]
    await settle(store)
    late = begin(watch.wait_for_event(key("99"), 1, FOREVER_S))
    await settle(store)

    assert store.asked == [99, 1]
    for task in (*early, late):
        task.cancel()
    await asyncio.wait([*early, late])


async def test_waiters_of_a_job_that_was_deleted_are_told_at_once(
    store: ChangingStore, watch: Waiters
) -> None:
    store.add("a")
    store.add("b")
    for_end = begin(watch.wait_until_finished(DEFAULT_TENANT, "a", FOREVER_S))
    for_event = begin(watch.wait_for_event(key("a"), 1, FOREVER_S))
    other = begin(watch.wait_for_event(key("b"), 1, FOREVER_S))
    await settle(store)

    store.delete("a")

    async with asyncio.timeout(PATIENCE_S):
        for waiting in (for_end, for_event):
            with pytest.raises(Gone):
                await waiting
    assert not other.done()
    store.move("b")
    async with asyncio.timeout(PATIENCE_S):
        await other


async def test_a_store_that_fails_is_asked_again_until_it_answers(
    store: ChangingStore, watch: Waiters
) -> None:
    store.add("a")
    waiting = begin(watch.wait_for_event(key("a"), 1, FOREVER_S))
    await settle(store)

    store.is_down = True
    store.move("a")
    await settle(store)
    await settle(store)
    assert not waiting.done()
    store.is_down = False  # nobody is told: it must be found

    async with asyncio.timeout(PATIENCE_S):
        assert (await waiting).last_event == 2


async def test_an_outage_is_logged_once(
    store: ChangingStore, watch: Waiters, caplog: pytest.LogCaptureFixture
) -> None:
    store.add("a")
    store.is_down = True
    waiting = begin(watch.wait_for_event(key("a"), 1, FOREVER_S))
    for _ in range(3):
        await settle(store)
    store.is_down = False
    await settle(store)

    assert [record.message for record in caplog.records] == ["job read failed"]
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_a_first_read_that_fails_is_the_callers_to_hear(
    store: ChangingStore, watch: Waiters
) -> None:
    store.add("a")
    store.is_down = True
    with pytest.raises(StoreUnavailable):
        await watch.wait_until_finished(DEFAULT_TENANT, "a", FOREVER_S)
    assert not store.has_subscribers


async def test_a_look_that_breaks_is_made_by_a_new_task_for_the_next_waiter(
    store: ChangingStore, watch: Waiters, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add("a")

    async def broken(_keys: Any) -> Any:
        raise RuntimeError("a fault of ours")

    with monkeypatch.context() as patch:
        patch.setattr(store, "get_many", broken)
        first = begin(watch.wait_for_event(key("a"), 1, FOREVER_S))
        await turns(10)
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # the task's own, unheard
    second = begin(watch.wait_for_event(key("a"), 1, FOREVER_S))
    await settle(store)
    store.move("a")

    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(first, second)


async def test_everybody_is_let_go_when_the_process_stops(
    store: ChangingStore, watch: Waiters
) -> None:
    job = store.add("a")
    for_end = begin(watch.wait_until_finished(DEFAULT_TENANT, "a", FOREVER_S))
    for_event = begin(watch.wait_for_event(key("a"), 1, FOREVER_S))
    await settle(store)

    watch.release()

    async with asyncio.timeout(PATIENCE_S):
        assert await for_end == job
        assert await for_event is None
        assert await watch.wait_until_finished(DEFAULT_TENANT, "a", FOREVER_S) == job
        assert await watch.wait_for_event(key("a"), 1, FOREVER_S) is None


@pytest.mark.parametrize("how", ["woken", "cancelled", "timed out", "released", "deleted"])
async def test_nothing_is_left_behind(store: ChangingStore, watch: Waiters, how: str) -> None:
    store.add("a")
    before = asyncio.all_tasks()
    time = 0.001 if how == "timed out" else FOREVER_S
    waiting = [begin(watch.wait_for_event(key("a"), 1, time)) for _ in range(10)]
    await settle(store)
    match how:
        case "woken":
            store.end("a")
        case "cancelled":
            for task in waiting:
                task.cancel()
        case "released":
            watch.release()
        case "deleted":
            store.delete("a")

    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*waiting, return_exceptions=True)
        while asyncio.all_tasks() != before:
            await turns(1)

    assert not store.has_subscribers
    assert (watch._waiters, watch._unread, watch._tasks) == ({}, set(), [])


async def test_who_comes_soon_after_another_finds_the_task_still_listening(
    store: ChangingStore, watch: Waiters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LINGER_S", FOREVER_S)
    for name in ("a", "b"):
        store.add(name)
        waiting = begin(watch.wait_until_finished(DEFAULT_TENANT, name, FOREVER_S))
        await settle(store)
        tasks = list(watch._tasks)
        store.end(name)
        async with asyncio.timeout(PATIENCE_S):
            await waiting
        assert watch._tasks == tasks
        assert store.has_subscribers

    reads = sum(store.reads.values())
    store.move("a", state=State.FAILED)
    await turns(100)
    assert sum(store.reads.values()) == reads, "nobody waits, so nothing is read"

    watch.release()
    assert not store.has_subscribers


async def test_the_task_stops_when_nobody_has_come_for_a_while(
    store: ChangingStore, watch: Waiters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LINGER_S", 0.001)
    store.add("a")
    waiting = begin(watch.wait_until_finished(DEFAULT_TENANT, "a", FOREVER_S))
    await settle(store)
    store.end("a")
    async with asyncio.timeout(PATIENCE_S):
        await waiting
        while store.has_subscribers:
            await turns(1)


async def test_a_job_that_was_seen_is_not_read_before_it_is_looked_at(
    store: ChangingStore, watch: Waiters
) -> None:
    seen = store.add("a")
    waiting = begin(watch.wait_until_finished(DEFAULT_TENANT, "a", FOREVER_S, seen))
    await settle(store)
    assert store.reads == {"get_many": 1}
    store.end("a")
    async with asyncio.timeout(PATIENCE_S):
        assert (await waiting).state is State.SUCCEEDED


def test_looks_may_take_a_fifth_of_the_time_and_a_few_are_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_REST_S", FOREVER_S)
    debt, now = module._RestDebt(), 1_000.0
    rests = []
    for _ in range(200):
        rests.append(debt.rest_after(now, now + 0.001))
        now += 0.001 + rests[-1]
    assert rests[:20] == [0.0] * 20
    assert rests[-50:] == pytest.approx([0.004] * 50)

    now += 1.0  # in which nothing was looked at
    assert debt.rest_after(now, now + 0.001) == 0.0
