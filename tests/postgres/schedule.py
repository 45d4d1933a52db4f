"""Lets the statements of several transactions go one at a time, in an order drawn from a seed.

Every statement that a store sends, and every commit, waits here for its turn. Nobody else goes on
before it has ended, or stands at a lock that another holds: that is asked of the server, on a
connection of its own. So a seed is an interleaving, and the same one each time. There is one thing
that it does not decide: where several wait for the same lock, the server lets one go first.

- A transaction begins with its first statement: a lone BEGIN does nothing that others could see.
- Who waits for each other in a circle is found here, not by the server, which would take its time
  and end one or the other. Of a circle the one that came last is ended, as the server would.
- Between two turns all code runs on until it waits for a turn, for a lock, or for another's work:
  the loop is idle then, and nothing but a turn will move it.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import asyncpg

# So often the loop goes round before it counts as idle: an answer is handed on a few times.
ROUNDS = 12
# How long a statement is waited for before the server is asked whether it stands at a lock.
LOOK_AGAIN_S = 0.002
MOST_TURNS = 2_000
_BLOCKED = "SELECT pid, pg_blocking_pids(pid) FROM unnest($1::int[]) AS pid"

_actor: contextvars.ContextVar[str] = contextvars.ContextVar("actor", default="")


@dataclass(eq=False)
class Turn:
    """A statement that waits for its turn, or is under way."""

    actor: str
    what: str
    pid: int
    go: asyncio.Future[None]
    ended: asyncio.Future[None]
    blocked: bool = False
    given_up: bool = False


@dataclass
class Schedule:
    """Whose turn it is."""

    seed: int
    observer: Any  # a connection that asks the server who waits for whom
    names: Mapping[str, str]  # of statements
    always: Callable[[], Awaitable[None]] | None = None  # holds after every turn
    trace: list[str] = field(default_factory=list)
    circles: int = 0
    _waiting: list[Turn] = field(default_factory=list)
    _in_progress: list[Turn] = field(default_factory=list)
    _active: bool = False
    _moves: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        # Some bugs need many changes, some one that stays away for long.
        self._stays = self.random.choice((0.0, 0.5, 0.85))
        self._last = ""

    async def together(self, operations: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
        """Run operations beside each other; return what each returned or raised."""
        names = [
            f"{chr(ord('a') + number)} {getattr(each, '__name__', '')}"
            for number, each in enumerate(operations)
        ]
        self._active = True
        tasks = [
            asyncio.create_task(self._as(name, each))
            for name, each in zip(names, operations, strict=True)
        ]
        try:
            await self._drive(tasks)
        finally:
            self._active = False
            for turn in self._waiting:
                turn.go.cancel()
            for task in tasks:
                task.cancel()
            self._waiting.clear()
        return list(await asyncio.gather(*tasks, return_exceptions=True))

    async def turn(self, connection: Any, sql: str, run: Callable[[], Awaitable[Any]]) -> Any:
        """Run a statement when its turn has come."""
        if not self._active:
            return await run()
        loop = asyncio.get_running_loop()
        what = self.names.get(sql, sql[:40])
        turn = Turn(
            _actor.get(),
            what,
            connection.get_server_pid(),
            loop.create_future(),
            loop.create_future(),
        )
        self._waiting.append(turn)
        self._moves += 1
        await turn.go
        try:
            return await run()
        except asyncpg.QueryCanceledError:
            if turn.given_up:
                raise asyncpg.DeadlockDetectedError("ended by the schedule") from None
            raise
        finally:
            self._moves += 1
            turn.ended.set_result(None)

    async def _as(self, name: str, operation: Coroutine[Any, Any, Any]) -> Any:
        _actor.set(name)
        return await operation

    async def _drive(self, tasks: Sequence[asyncio.Task[Any]]) -> None:
        for _ in range(MOST_TURNS):
            await self._until_idle()
            if self._waiting:
                turn = self._choose()
                self.trace.append(f"{turn.actor}: {turn.what}")
                self._waiting.remove(turn)
                self._in_progress.append(turn)
                turn.go.set_result(None)
            elif all(task.done() for task in tasks):
                return
            else:
                raise AssertionError("somebody waits for nothing that could come")
        raise AssertionError("it does not end")

    def _choose(self) -> Turn:
        there = sorted(self._waiting, key=lambda turn: (turn.actor, turn.what))
        same = [turn for turn in there if turn.actor == self._last]
        if not (same and self.random.random() < self._stays):
            same = there
        turn = self.random.choice(same)
        self._last = turn.actor
        return turn

    async def _until_idle(self) -> None:
        """Return when nothing moves by itself, and all statements under way stand at locks."""
        while True:
            await self._until_ended_or_blocked()
            before = self._moves
            for _ in range(ROUNDS):
                await asyncio.sleep(0)
            if self._moves == before and all(turn.blocked for turn in self._in_progress):
                break
        if self.always is not None and self._last:
            await self.always()

    async def _until_ended_or_blocked(self) -> None:
        while True:
            self._in_progress = [turn for turn in self._in_progress if not turn.ended.done()]
            if not self._in_progress:
                return
            blockers = await self._blockers()
            circle = _circle(self._in_progress, blockers)
            if circle:
                last = circle[-1]
                self.circles += 1
                self.trace.append(f"{last.actor}: {last.what} is ended: a circle")
                last.given_up = True
                await self.observer.execute("SELECT pg_cancel_backend($1)", last.pid)
                await last.ended
                continue
            for turn in self._in_progress:
                if blockers[turn.pid] and not turn.blocked:
                    self.trace.append(f"{turn.actor}: {turn.what} waits")
                turn.blocked = bool(blockers[turn.pid])
            moving = [turn.ended for turn in self._in_progress if not turn.blocked]
            if not moving:
                return
            await asyncio.wait(moving, timeout=LOOK_AGAIN_S)

    async def _blockers(self) -> dict[int, list[int]]:
        rows = await self.observer.fetch(_BLOCKED, [turn.pid for turn in self._in_progress])
        return {row[0]: row[1] for row in rows}


def _circle(in_progress: Sequence[Turn], blockers: Mapping[int, list[int]]) -> list[Turn]:
    """Return those who wait for each other, in the order they came."""
    ours = {
        turn.pid: [pid for pid in blockers[turn.pid] if pid in blockers] for turn in in_progress
    }
    while True:
        left = {
            pid: [other for other in others if other in ours]
            for pid, others in ours.items()
            if any(other in ours for other in others)
        }
        if left == ours:
            return [turn for turn in in_progress if turn.pid in left]
        ours = left


class Gated:
    """A connection on which every statement waits for its turn."""

    def __init__(self, schedule: Schedule, connection: Any) -> None:
        self._schedule = schedule
        self._connection = connection
        self._begins: list[Any] = []

    def transaction(self) -> GatedTransaction:
        """Return a transaction that begins with its first statement."""
        return GatedTransaction(self)

    async def fetch(self, sql: str, *values: Any) -> Any:
        """Read rows."""
        return await self._run("fetch", sql, values)

    async def fetchrow(self, sql: str, *values: Any) -> Any:
        """Read one row."""
        return await self._run("fetchrow", sql, values)

    async def fetchval(self, sql: str, *values: Any) -> Any:
        """Read one value."""
        return await self._run("fetchval", sql, values)

    async def execute(self, sql: str, *values: Any) -> Any:
        """Run a statement."""
        return await self._run("execute", sql, values)

    async def _run(self, how: str, sql: str, values: Sequence[Any]) -> Any:
        async def run() -> Any:
            while self._begins:
                await self._begins.pop(0).begin()
            return await getattr(self._connection, how)(sql, *values)

        return await self._schedule.turn(self._connection, sql, run)


class GatedTransaction:
    """A transaction whose end waits for its turn."""

    def __init__(self, gated: Gated) -> None:
        self._gated = gated
        self._inner = gated._connection.transaction()
        self._has_begun = False

    async def begin(self) -> None:
        """Begin now."""
        self._has_begun = True
        await self._inner.start()

    async def __aenter__(self) -> GatedTransaction:
        self._gated._begins.append(self)
        return self

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        if not self._has_begun:
            self._gated._begins.remove(self)
            return
        how, what = (
            (self._inner.commit, "commit") if kind is None else (self._inner.rollback, "rollback")
        )
        await self._gated._schedule.turn(self._gated._connection, what, how)
