"""Writing outcomes: one at once where nothing is on its way, else as many as there are."""

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


class Desk:
    """Stands where the engine does: keeps every settle waiting until it is told to answer."""

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
    """Runs what is to be written, and waits for all of it."""

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
    """Let everything that is ready go on; nothing in here waits for anything but the desk."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_one_is_sent_at_once_and_the_rest_gather_while_others_are_on_their_way() -> None:
    desk, writes = Desk(), Writes()
    settling = Completer(desk, writes, no_failpoint, {})  # type: ignore[arg-type]  # the one verb it calls
    for name in "abcdef":
        settling.settle_soon(settlements(name))
        await turns()
    assert desk.sent == [["a"], ["b"]]
    assert all(Lease("t", name, 1) in settling for name in "abcdef")
    desk.open.set()
    await writes.done()
    assert desk.sent == [["a"], ["b"], ["c", "d", "e", "f"]]
    assert not any(Lease("t", name, 1) in settling for name in "abcdef")


async def test_what_ends_in_one_turn_goes_together() -> None:
    desk, writes = Desk(), Writes()
    desk.open.set()
    settling = Completer(desk, writes, no_failpoint, {})  # type: ignore[arg-type]  # the one verb it calls
    settling.settle_soon(settlements("a"))
    settling.settle_soon(settlements("b", "c"))
    await writes.done()
    assert desk.sent == [["a", "b", "c"]]


async def test_one_outcome_that_cannot_be_written_fails_alone() -> None:
    desk, writes = Desk(), Writes()
    desk.open.set()
    desk.refuse = {"c": ValueError("not that one")}
    settling = Completer(desk, writes, no_failpoint, {})  # type: ignore[arg-type]  # the one verb it calls
    settling.settle_soon(settlements(*"abcdefgh"))
    await writes.done()
    assert sorted(desk.written) == list("abcdefgh")
    assert [n for n, outcome in desk.written.items() if isinstance(outcome, GaveUp)] == ["c"]


async def test_a_fault_nobody_has_heard_of_holds_up_only_its_own_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "UNEXPECTED_ERROR_PAUSE_S", 0)
    desk, writes = Desk(), Writes()
    desk.open.set()
    desk.refuse = {"a": RuntimeError("what is this")}
    settling = Completer(desk, writes, no_failpoint, {})  # type: ignore[arg-type]  # the one verb it calls
    settling.settle_soon(settlements("a", "b"))
    await turns()
    settling.settle_soon(settlements("c"))
    await turns()
    assert list(desk.written) == ["c"]
    assert Lease("t", "a", 1) in settling
    desk.refuse = {}
    await writes.done()
    assert sorted(desk.written) == ["a", "b", "c"]
