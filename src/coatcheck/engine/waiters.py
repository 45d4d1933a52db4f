"""Wait for jobs: any number of waiters share one read of the store.

Roles:

- A *waiter* waits until a job finishes, or until it has an event after the one that it knows.
- The *reader task* reads the watched jobs, all in one query, and wakes the waiters whose condition
  holds. It runs while anyone waits and `LINGER_S` longer, so that a caller who submits and waits in
  a loop does not start and stop it each time.
- A *listener task* for each topic receives the store's wake-ups and triggers a read.

Invariants:

- No change is missed. A waiter registers first, then the reader task reads its job. All waiters
  that have registered since the last read share one read. From then on each wake-up triggers a read
  of every watched job.
- A waiter of a deleted job is woken, and reads the job itself to find out that it is gone.
- A failed read is repeated until it succeeds or the waiters time out.
- Reads use at most a fifth of the time, averaged over a while, so a busy store with many waiters
  costs a bounded share of the event loop. A lone waiter on a quiet system is woken at once.
- Reports of running jobs trigger reads only while someone waits for events: a job with a thousand
  steps is not read a thousand times for callers who wait for its end.
- Wake-ups that arrive during a read, or during the rest after it, are merged into the next read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from coatcheck.engine.confirmation import expire_confirmation
from coatcheck.errors import StoreError
from coatcheck.model.event import JobEvent
from coatcheck.model.job import Job
from coatcheck.store.base import Signal, Store, Topic

log = logging.getLogger(__name__)

Key = tuple[str, str]
Page = tuple[str, str, int, int]  # tenant, job, the event before the page, its length

# Each second of reading is owed this many seconds of rest. The debt also shrinks while there is
# nothing to read; the task rests once it owes more than `MAX_DEBT_S`.
REST_FACTOR = 4
MAX_DEBT_S = 0.1
MAX_REST_S = 0.25
# How long the tasks run on after the last waiter has left.
LINGER_S = 2.0
# The safety net in case a wake-up is lost.
POLL_S = 5.0


class _Waiter:
    """A caller who waits for a job to finish, or for an event after `after`."""

    __slots__ = ("after", "future")

    def __init__(self, after: int | None) -> None:
        self.after = after
        self.future: asyncio.Future[Job | None] = asyncio.get_running_loop().create_future()

    def wants(self, job: Job) -> bool:
        return job.state.is_terminal or (self.after is not None and job.last_event > self.after)


class _RestDebt:
    """The rest that the reader task owes."""

    def __init__(self) -> None:
        self._owed = 0.0
        self._since = 0.0

    def rest_after(self, began: float, ended: float) -> float:
        """Return how long to rest after a read."""
        left = max(0.0, self._owed - (began - self._since))
        self._owed, self._since = left + REST_FACTOR * (ended - began), ended
        return min(MAX_REST_S, max(0.0, self._owed - MAX_DEBT_S))


class Waiters:
    """The waiters of one process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiters: dict[Key, set[_Waiter]] = {}
        self._unread: set[Key] = set()  # registered since the last read
        self._changed = False  # the store has sent a wake-up
        self._read_now = asyncio.Event()
        self._rested = asyncio.Event()
        self._rested.set()
        self._signals: dict[Topic, Signal] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._stop_timer: asyncio.TimerHandle | None = None
        self.released = False

    async def wait_until_finished(
        self, tenant: str, job_id: str, timeout: float, seen: Job | None = None
    ) -> Job:
        """Return the job when it finishes, or as it is when the time runs out.

        `seen` saves the first read, for a caller who has just read the job.
        """
        job = await self._store.jobs.get(tenant, job_id) if seen is None else seen
        if job.state.is_terminal or timeout <= 0 or self.released:
            return job
        finished = await self._wait((tenant, job.id), None, timeout)
        return await self._store.jobs.get(tenant, job.id) if finished is None else finished

    async def wait_for_event(self, key: Key, after: int, timeout: float) -> Job | None:
        """Return the job when it has an event after `after` or finishes.

        Return None if the time runs out or the waiters are released. Raises NotFound, Gone.
        """
        return await self._wait(key, after, timeout)

    def release(self) -> None:
        """Wake every waiter, and let no one wait from now on: this process is about to stop."""
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
        self._register(key, waiter)
        try:
            await asyncio.wait([waiter.future], timeout=timeout)
            expire_confirmation()
            if waiter.future.done() and not waiter.future.cancelled():
                found = waiter.future.result()
                # The job is deleted: a read of its own raises Gone or NotFound.
                return await self._store.jobs.get(*key) if found is None else found
            return None
        finally:
            self._unregister(key, waiter)

    def _register(self, key: Key, waiter: _Waiter) -> None:
        self._cancel_stop()
        self._waiters.setdefault(key, set()).add(waiter)
        self._unread.add(key)
        self._read_now.set()
        if any(task.done() for task in self._tasks):
            self._stop()  # a task has failed: start all of them anew
        if not self._tasks:
            self._rested.set()
            self._start("read", self._read_loop())
        self._listen_to(Topic.CHANGES)
        if waiter.after is not None:
            self._listen_to(Topic.REPORTS)

    def _listen_to(self, topic: Topic) -> None:
        if topic not in self._signals:
            # Subscribe before the next read, so that no change falls between the two.
            self._signals[topic] = self._store.subscribe(topic)
            self._start(topic, self._listen_loop(self._signals[topic]))

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work, name=f"coatcheck-waiters-{name}"))

    def _unregister(self, key: Key, waiter: _Waiter) -> None:
        waiter.future.cancel()
        others = self._waiters.get(key, set())
        others.discard(waiter)
        if not others:
            self._waiters.pop(key, None)
            self._unread.discard(key)
        if not self._waiters:
            if self.released or LINGER_S <= 0:
                self._stop()
            else:
                self._stop_timer = asyncio.get_running_loop().call_later(LINGER_S, self._stop)

    def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for signal in self._signals.values():
            signal.close()
        self._tasks, self._signals = [], {}
        self._cancel_stop()

    def _cancel_stop(self) -> None:
        if self._stop_timer is not None:
            self._stop_timer.cancel()
            self._stop_timer = None

    async def _listen_loop(self, signal: Signal) -> None:
        while True:
            await signal.wait(POLL_S)
            self._changed = True
            self._read_now.set()
            await self._rested.wait()

    async def _read_loop(self) -> None:
        loop = asyncio.get_running_loop()
        reachable, debt = True, _RestDebt()
        while True:
            await self._read_now.wait()
            self._read_now.clear()
            self._rested.clear()
            began = loop.time()
            keys = list(self._waiters if self._changed else self._unread)
            self._changed = False
            self._unread.clear()
            try:
                if keys:
                    self._wake(keys, await self._store.jobs.get_many(keys))
            except StoreError as error:
                if reachable:
                    log.warning("job read failed", extra={"why": str(error)})
                reachable = False
                self._changed = True  # this read has to be repeated
                self._read_now.set()
                await asyncio.sleep(MAX_REST_S)
            else:
                reachable = True
                await asyncio.sleep(debt.rest_after(began, loop.time()))
            self._rested.set()

    def _wake(self, keys: Sequence[Key], jobs: Sequence[Job]) -> None:
        found = {(job.tenant, job.id): job for job in jobs}
        for key in keys:
            job = found.get(key)
            for waiter in self._waiters.get(key, ()):
                if not waiter.future.done() and (job is None or waiter.wants(job)):
                    waiter.future.set_result(job)


class EventReader:
    """Reads of event logs; callers who read the same page at the same time share one query."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reads: dict[Page, asyncio.Task[Sequence[JobEvent]]] = {}

    async def read(self, tenant: str, job_id: str, after: int, limit: int) -> Sequence[JobEvent]:
        """Read a page of a job's event log."""
        page = (tenant, job_id, after, limit)
        task = self._reads.get(page)
        if task is None:
            task = asyncio.create_task(self._read(page))
            self._reads[page] = task
            task.add_done_callback(lambda _: self._reads.pop(page, None))
        # A caller that is cancelled does not cancel the read for the others.
        return await asyncio.shield(task)

    async def _read(self, page: Page) -> Sequence[JobEvent]:
        return await self._store.jobs.list_events(*page)
