"""The completer: settles one attempt at once, and many in one write while others are in
progress.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from coatcheck.model.job import Lease
from coatcheck.model.outcome import GaveUp, Succeeded
from coatcheck.store.base import Settlement
from coatcheck.worker.attempts import completer as module
from coatcheck.worker.attempts.completer import Completer
from coatcheck.worker.failpoints import no_failpoint

pytestmark = pytest.mark.anyio


class HeldEngine:
    """Stands in for the engine: holds every settle until the test answers it."""

    def __init__(self) -> None:
        self.sent: list[list[str]] = []
        self.written: dict[str, object] = {}
        self.open = asyncio.Event()
        self.refuse: dict[str, Exception] = {}

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        names = [settlement.lease.job_id for settlement in settlements]
        self.sent.append(names)
        await self.open.wait()
        for (_, name, _), outcome, _ in settlements:
            if name in self.refuse and isinstance(outcome, Succeeded):
                raise self.refuse[name]
        self.written |= {each.lease.job_id: each.outcome for each in settlements}
        return [True] * len(settlements)


class Writes:
    """Runs the writes, and waits for all of them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, write: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.get_running_loop().create_task(write))

    async def done(self) -> None:
        while tasks := [task for task in self._tasks if not task.done()]:
            await asyncio.gather(*tasks)


def settlements(*names: str) -> list[Settlement]:
    return [Settlement(Lease("t", name, 1), Succeeded("null")) for name in names]


async def turns() -> None:
    """Let all ready callbacks run. Nothing here waits except for the held settles."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_the_first_settle_is_immediate_and_later_ones_are_batched() -> None:
    held_engine, writes = HeldEngine(), Writes()
    settling = Completer(held_engine, writes, no_failpoint, {})  # type: ignore[arg-type]  # the one verb it calls
    for name in "abcdef":
        settling.settle_soon(settlements(name))
        await turns()
    assert held_engine.sent == [["a"], ["b"]]
    assert all(Lease("t", name, 1) in settling for name in "abcdef")
    held_engine.open.set()
    await writes.done()
    assert held_engine.sent == [["a"], ["b"], ["c", "d", "e", "f"]]
    assert not any(Lease("t", name, 1) in settling for name in "abcdef")


async def test_attempts_that_end_together_are_settled_together() -> None:
    held_engine, writes = HeldEngine(), Writes()
    held_engine.open.set()
    settling = Completer(held_engine, writes, no_failpoint, {})  # type: ignore[arg-type]  # the one verb it calls
    settling.settle_soon(settlements("a"))
    settling.settle_soon(settlements("b", "c"))
    await writes.done()
    assert held_engine.sent == [["a", "b", "c"]]


async def test_one_outcome_that_cannot_be_written_fails_alone() -> None:
    held_engine, writes = HeldEngine(), Writes()
    held_engine.open.set()
    held_engine.refuse = {"c": ValueError("not that one")}
    settling = Completer(held_engine, writes, no_failpoint, {})  # type: ignore[arg-type]  # the one verb it calls
    settling.settle_soon(settlements(*"abcdefgh"))
    await writes.done()
    assert sorted(held_engine.written) == list("abcdefgh")
    assert [n for n, outcome in held_engine.written.items() if isinstance(outcome, GaveUp)] == ["c"]


async def test_an_unexpected_error_delays_only_its_own_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "UNEXPECTED_ERROR_PAUSE_S", 0)
    held_engine, writes = HeldEngine(), Writes()
    held_engine.open.set()
    held_engine.refuse = {"a": RuntimeError("what is this")}
    settling = Completer(held_engine, writes, no_failpoint, {})  # type: ignore[arg-type]  # the one verb it calls
    settling.settle_soon(settlements("a", "b"))
    await turns()
    settling.settle_soon(settlements("c"))
    await turns()
    assert list(held_engine.written) == ["c"]
    assert Lease("t", "a", 1) in settling
    held_engine.refuse = {}
    await writes.done()
    assert sorted(held_engine.written) == ["a", "b", "c"]
