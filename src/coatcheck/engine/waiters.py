"""Waiting for jobs to move or to end: any number of waiters, one read of the store for all of them.

A waiter registers and has the task look at its job, so that a change before that is not missed:
all who came since the last look share one read. From then on the task waits for the store to say
that something changed, reads every watched job in one go, and wakes the waiters of those that have
come as far as they wait for. A job that is not there any more was deleted: its waiters are let go
to find that out. A look that fails is made again until it works, or the waiters' time runs out.
The task lives while somebody waits, and a moment longer: who hands in one thing after the other and
waits for each would have it begin to listen, and stop, each time.

Looks may take a fifth of the time, so that a busy store and many waiters cost a bounded share of
the loop. That is counted over a while: who waits alone on a quiet system is told at once, also
where a look has just been made.

What running jobs say of themselves is listened to only once somebody waits for that: a job of a
thousand steps is not read a thousand times for those who wait for its end. While the task looks, or
rests after it, nothing that comes in costs anything; the next look finds all of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from coatcheck.engine.confirmation import expire_confirmation
from coatcheck.errors import StoreError
from coatcheck.model.job import Job
from coatcheck.store.base import Signal, Store, Topic

log = logging.getLogger(__name__)

Key = tuple[str, str]

# For the time that a look takes the task owes this many times as much of rest, which passes by
# itself while there is nothing to look at; it rests once it owes more than so many seconds.
REST = 4
OWED_AT_MOST = 0.1
LONGEST_REST = 0.25
# How long it goes on to listen when nobody waits any more.
LINGER_S = 2.0
# Look again unasked: the net below the wake-ups.
NET_S = 5.0


class _Waiter:
    """Somebody who waits for a job to end, or for an event after the one they know."""

    __slots__ = ("after", "future")

    def __init__(self, after: int | None) -> None:
        self.after = after
        self.future: asyncio.Future[Job | None] = asyncio.get_running_loop().create_future()

    def wants(self, job: Job) -> bool:
        return job.state.is_terminal or (self.after is not None and job.last_event > self.after)


class _Rest:
    """How much rest is owed for looks."""

    def __init__(self) -> None:
        self._owed = 0.0
        self._since = 0.0

    def after(self, began: float, ended: float) -> float:
        """Return how long to rest after a look."""
        left = max(0.0, self._owed - (began - self._since))
        self._owed, self._since = left + REST * (ended - began), ended
        return min(LONGEST_REST, max(0.0, self._owed - OWED_AT_MOST))


class Waiters:
    """The waiters of one process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiters: dict[Key, set[_Waiter]] = {}
        self._fresh: set[Key] = set()  # registered since the last look
        self._changed = False  # the store has said that something changed
        self._look_now = asyncio.Event()
        self._rested = asyncio.Event()
        self._rested.set()
        self._signals: dict[Topic, Signal] = {}  # what is listened to
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping: asyncio.TimerHandle | None = None
        self.released = False

    async def wait_until_finished(
        self, tenant: str, job_id: str, timeout: float, seen: Job | None = None
    ) -> Job:
        """Return the job when it has ended, or as it stands when the time runs out. Whoever has
        just seen it spares it a read.
        """
        job = await self._store.get(tenant, job_id) if seen is None else seen
        if job.state.is_terminal or timeout <= 0 or self.released:
            return job
        ended = await self._wait((tenant, job.id), None, timeout)
        return await self._store.get(tenant, job.id) if ended is None else ended

    async def wait_for_event(self, key: Key, after: int, timeout: float) -> Job | None:
        """Return the job when it has an event after this one or has ended; None when the time runs
        out first, or everybody is let go. Raises NotFound, Gone.

        Whoever asks has seen the job before, and it is not read for each of them.
        """
        return await self._wait(key, after, timeout)

    def release(self) -> None:
        """Let every waiter go, now and from now on: this process is about to stop."""
        self.released = True
        if not self._waiters:
            self._stop()
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.future.cancel()

    async def _wait(self, key: Key, after: int | None, timeout: float) -> Job | None:
        if self.released:
            return None
        waiter = _Waiter(after)
        self._enter(key, waiter)
        try:
            await asyncio.wait([waiter.future], timeout=timeout)
            expire_confirmation()
            if waiter.future.done() and not waiter.future.cancelled():
                found = waiter.future.result()
                # Not there any more: a read of its own says whether it was, and is gone.
                return await self._store.get(*key) if found is None else found
            return None
        finally:
            self._leave(key, waiter)

    def _enter(self, key: Key, waiter: _Waiter) -> None:
        self._go_on_listening()
        self._waiters.setdefault(key, set()).add(waiter)
        self._fresh.add(key)
        self._look_now.set()
        if any(task.done() for task in self._tasks):
            self._stop()  # one that has failed is no reason to leave the next waiters alone
        if not self._tasks:
            self._rested.set()
            self._begin("look", self._watch())
        self._listen_to(Topic.CHANGES)
        if waiter.after is not None:
            self._listen_to(Topic.REPORTS)

    def _listen_to(self, topic: Topic) -> None:
        if topic not in self._signals:
            # Now, before the next look: nothing may fall between the two.
            self._signals[topic] = self._store.subscribe(topic)
            self._begin(topic, self._follow(self._signals[topic]))

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work, name=f"coatcheck-watch-{name}"))

    def _leave(self, key: Key, waiter: _Waiter) -> None:
        waiter.future.cancel()
        others = self._waiters.get(key, set())
        others.discard(waiter)
        if not others:
            self._waiters.pop(key, None)
            self._fresh.discard(key)
        if not self._waiters:
            if self.released or LINGER_S <= 0:
                self._stop()
            else:
                self._stopping = asyncio.get_running_loop().call_later(LINGER_S, self._stop)

    def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for signal in self._signals.values():
            signal.close()
        self._tasks, self._signals = [], {}
        self._go_on_listening()

    def _go_on_listening(self) -> None:
        if self._stopping is not None:
            self._stopping.cancel()
            self._stopping = None

    async def _follow(self, signal: Signal) -> None:
        while True:
            await signal.wait(NET_S)
            self._changed = True
            self._look_now.set()
            await self._rested.wait()

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        reachable, rest = True, _Rest()
        while True:
            await self._look_now.wait()
            self._look_now.clear()
            self._rested.clear()
            began = loop.time()
            keys = list(self._waiters if self._changed else self._fresh)
            self._changed = False
            self._fresh.clear()
            try:
                if keys:
                    self._wake(keys, await self._store.get_many(keys))
            except StoreError:
                if reachable:
                    log.warning("the store cannot be read; waiting for it")
                reachable = False
                # What this look was for has not been seen yet.
                self._changed = True
                self._look_now.set()
                await asyncio.sleep(LONGEST_REST)
            else:
                reachable = True
                await asyncio.sleep(rest.after(began, loop.time()))
            self._rested.set()

    def _wake(self, keys: Sequence[Key], jobs: Sequence[Job]) -> None:
        found = {(job.tenant, job.id): job for job in jobs}
        for key in keys:
            job = found.get(key)
            for waiter in self._waiters.get(key, ()):
                if not waiter.future.done() and (job is None or waiter.wants(job)):
                    waiter.future.set_result(job)
