"""Waiting for jobs to end: any number of waiters, one read of the store for all of them.

A waiter registers first and reads afterwards, so that a change between the two is not missed. One
task waits for the store to say that something changed, reads every watched job in one go, and
wakes the waiters of those that have ended. The task lives only while somebody waits.
"""

from __future__ import annotations

import asyncio
import logging

from coatcheck.errors import StoreUnavailable
from coatcheck.model.job import Job
from coatcheck.store.base import Signal, Store, Topic

log = logging.getLogger(__name__)

Key = tuple[str, str]

# After a read the task rests this many times as long, so that a busy store and many waiters cost
# a bounded share of the loop.
REST = 4
LONGEST_REST = 0.25
# Look again unasked: the net below the wake-ups.
NET_S = 5.0


class Watch:
    """The waiters of one process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiters: dict[Key, set[asyncio.Future[Job]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._released = False

    async def until_ended(self, tenant: str, job_id: str, timeout: float) -> Job:
        """Return the job when it has ended, or as it stands when the time runs out."""
        job = await self._store.get(tenant, job_id)
        if job.state.is_terminal or timeout <= 0 or self._released:
            return job
        key = (tenant, job.id)
        waiter: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(key, set()).add(waiter)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch(), name="coatcheck-watch")
        try:
            job = await self._store.get(tenant, job.id)
            if not job.state.is_terminal:
                done, _ = await asyncio.wait([waiter], timeout=timeout)
                if done and not waiter.cancelled():
                    return waiter.result()
                job = await self._store.get(tenant, job.id)
            return job
        finally:
            self._leave(key, waiter)

    def release(self) -> None:
        """Let every waiter go with its job as it stands: this process is about to stop."""
        self._released = True
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.cancel()

    def _leave(self, key: Key, waiter: asyncio.Future[Job]) -> None:
        waiter.cancel()
        others = self._waiters.get(key, set())
        others.discard(waiter)
        if not others:
            self._waiters.pop(key, None)
        if not self._waiters and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _watch(self) -> None:
        signal = self._store.subscribe(Topic.CHANGES)
        try:
            while True:
                await self._look(signal)
        finally:
            signal.close()

    async def _look(self, signal: Signal) -> None:
        await signal.wait(NET_S)
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            jobs = await self._store.get_many(list(self._waiters))
        except StoreUnavailable:
            log.warning("the store cannot be read; waiting for it")
            jobs = []
        for job in jobs:
            if job.state.is_terminal:
                for waiter in self._waiters.get((job.tenant, job.id), ()):
                    if not waiter.done():
                        waiter.set_result(job)
        await asyncio.sleep(min(LONGEST_REST, REST * (loop.time() - began)))
