"""The worker: claims jobs for its slots, has them run, and settles them.

Everything here runs on one event loop that no handler ever runs on (see runners.py), so a handler
that blocks, hangs or eats the processor delays neither heartbeats nor settles.

The life of a worker:

1. It registers under an id that is new at every start, and heartbeats from then on (presence.py).
2. It claims when it is woken (a job was submitted, a slot came free, a delayed job is due) and as
   a net every few seconds. A claim takes at most as many jobs as there are free slots, unless they
   have lately been very short (pace.py), and only of kinds it has. What has no slot yet waits in
   line for one (backlog.py), and is given back if that takes too long. A job that would fail if
   the worker died never waits there: it must not fail without having been started.
3. Each job that has started has a timer. When it runs out, when the job is cancelled, or when the
   worker must stop, the handler is *interrupted*: told to stop, given a grace period, and then left
   behind: the job is settled without it, and its slot stays taken until the handler really returns.
4. While the store is down it keeps what its handlers have finished and tries again, with a pause
   that grows (outage.py); nothing is lost unless the process is.
5. When it learns that it was taken for lost, its jobs belong to others. It forgets what waits,
   interrupts what it runs, writes nothing more about either, and registers anew.
6. Told to stop, it claims no more and gives back what waits, lets its jobs finish for the drain
   time, gives the rest back without consuming their attempt, and says goodbye.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from coatcheck.engine.engine import Engine
from coatcheck.errors import StoreUnavailable
from coatcheck.model.job import Claim, Lease
from coatcheck.model.outcome import Released
from coatcheck.settings import Settings
from coatcheck.store.base import Settlement, Topic
from coatcheck.worker.backlog import Backlog
from coatcheck.worker.context import Interrupt
from coatcheck.worker.execution import Execution
from coatcheck.worker.outage import Pauses, persist
from coatcheck.worker.pace import AHEAD_S, PATIENCE_S, Pace
from coatcheck.worker.presence import Presence
from coatcheck.worker.probe import Probe, no_probe
from coatcheck.worker.reports import Reports
from coatcheck.worker.runners import AsyncRunner, Ended, Finished, NewLoop, Runner, ThreadRunner
from coatcheck.worker.settling import Settling
from coatcheck.worker.verdict import count, settlements_of
from coatcheck.worker.watchdog import watch_for_blocking

log = logging.getLogger(__name__)

# Look for work unasked this often.
NET_S = 10.0
# Handlers that outlive the drain have this long to clean up before they are left behind.
LAST_GRACE_S = 1.0
# How long a stopping worker keeps trying to write what its handlers finished.
LAST_WRITES_S = 5.0


class Worker:
    """One worker in one process. It is made and run on the event loop it works on."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        *,
        new_loop: NewLoop = asyncio.new_event_loop,
        probe: Probe = no_probe,
        pace: Pace | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._engine = engine
        self._settings = settings
        self._probe = probe
        self._kinds = sorted(engine.kinds)
        self._wake = asyncio.Event()  # there may be something to claim
        self._presence = Presence(
            engine,
            slots=settings.slots,
            lease_s=settings.lease_s,
            probe=probe,
            on_registered=self._wake.set,
        )
        self._monotonic = engine.clock.monotonic
        self._backlog = Backlog(settings.slots, self._monotonic)
        self._pace = pace or Pace()
        finished = Finished(self._backlog, self._finished)
        self._async = AsyncRunner(partial(finished, "async"), new_loop)
        self._runners: dict[str, Runner] = {
            "async": self._async,
            "thread": ThreadRunner(partial(finished, "thread"), settings.slots),
        }
        self._reports = Reports(self._report_soon)
        self._held: dict[Lease, Execution] = {}  # what waits for a slot, and what runs
        self._writes: set[asyncio.Task[None]] = set()
        self._settling = Settling(engine, self._write_soon, probe)
        self._moved = asyncio.Event()  # an execution has ended, or was left behind
        self._maybe_more = False  # the last claim brought all that was asked for
        self._impatience: asyncio.TimerHandle | None = None
        self._lives = 0  # how often it was taken for lost
        self._stopping = False

    @property
    def id(self) -> str:
        """The id of this start; empty before it has registered."""
        return self._presence.worker_id

    async def run(self, stop: asyncio.Event, ready: Callable[[], None] = lambda: None) -> None:
        """Work until `stop` is set, then drain. `ready` is called once the worker is known."""
        await self._presence.register()
        ready()
        fields = {"worker": self.id, "slots": self._settings.slots, "kinds": self._kinds}
        log.info("worker started", extra=fields)
        claiming = asyncio.create_task(self._claim())
        beating = asyncio.create_task(self._presence.beat(self._taken_for_lost))
        others = [
            asyncio.create_task(self._follow_work()),
            asyncio.create_task(self._follow_cancels()),
            asyncio.create_task(watch_for_blocking(self._async, lambda: bool(self._held))),
        ]
        try:
            await _until_stopped(stop, [claiming, beating, *others])
        finally:
            await self._stop_claiming(claiming)
            await self._drain()
            await _end([beating, *others])
            await self._presence.leave()
            for runner in self._runners.values():
                runner.close()
            log.info("worker stopped", extra={"worker": self.id})

    # --- claiming

    async def _claim(self) -> None:
        pauses = Pauses()
        unsure = False  # a claim was sent and its answer never came
        while not self._stopping:
            wait = NET_S
            limit = self._room()
            if limit == 0:
                self._maybe_more = True  # than could be asked for
            else:
                life = self._lives
                try:
                    if unsure:
                        await self._give_back_unknown()
                        unsure = False
                    claimed = await self._engine.claim(self.id, self._kinds, limit)
                except StoreUnavailable as error:
                    unsure = True
                    await pauses.pause(error)
                    continue
                pauses.reset()
                self._probe("worker.claimed")
                if life == self._lives:  # else they were claimed by one who is lost
                    self._take_on(claimed.claims)
                self._pace.claimed(len(claimed.claims), self._monotonic())
                self._maybe_more = len(claimed.claims) == limit
                if claimed.next_due is not None:
                    wait = min(NET_S, max(0, claimed.next_due - self._engine.clock.now()) / 1000)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            self._wake.clear()

    def _room(self) -> int:
        """Return how many jobs to claim now."""
        if not self._kinds:
            return 0
        return self._pace.limit(
            free=self._backlog.free,
            moving=self._settings.slots - self._backlog.running_longer_than(AHEAD_S),
            waiting=len(self._backlog),
            now=self._monotonic(),
        )

    async def _give_back_unknown(self) -> None:
        """Release what a claim took whose answer never came. No claim is on its way meanwhile."""
        held = await self._engine.store.held_by(self.id)
        unknown = [item.lease for item in held if item.lease not in self._held]
        unsettled = {lease for lease in unknown if lease not in self._settling}
        if unsettled:
            log.warning(
                "giving back jobs whose claim was not answered", extra={"jobs": len(unsettled)}
            )
            await self._engine.settle([Settlement(lease, Released()) for lease in unsettled])

    async def _follow_work(self) -> None:
        signal = self._engine.store.subscribe(Topic.WORK)
        with contextlib.closing(signal):
            while True:
                await signal.wait()
                self._wake.set()

    # --- starting

    def _take_on(self, claims: list[Claim]) -> None:
        kinds = self._engine.kinds
        executions = [Execution(claim, kinds[claim.kind], self._reports.note) for claim in claims]
        self._held.update((execution.claim.lease, execution) for execution in executions)
        self._backlog.put(executions)
        if self._stopping:
            self._give_back(self._backlog.clear())
            return
        self._start_next()
        if fragile := self._backlog.cut(lambda each: each.must_not_be_lost):
            self._pace.gave_back()
            self._give_back(fragile)
        if self._impatience is None:
            self._watch_waiting()

    def _start_next(self) -> None:
        """Start what waits, as far as there are slots for it."""
        by_isolation: dict[str, list[Execution]] = {}
        for execution in self._backlog.take():
            by_isolation.setdefault(execution.kind.isolation, []).append(execution)
            self._start_timer(execution)
        for isolation, executions in by_isolation.items():
            self._runners[isolation].start(executions)

    def _start_timer(self, execution: Execution) -> None:
        terms = execution.claim.terms
        left = terms.timeout_ms / 1000 - (self._monotonic() - execution.started_at)
        if terms.deadline_at is not None:
            left = min(left, (terms.deadline_at - self._engine.clock.now()) / 1000)
        execution.timer = self._loop.call_later(
            max(0, left), self._interrupt, execution, Interrupt.TIMEOUT
        )

    def _watch_waiting(self) -> None:
        """Give all that waits back once the first of it has waited too long."""
        self._impatience = None
        waited = self._backlog.longest_wait()
        if waited is None:
            return
        if waited >= PATIENCE_S:
            self._pace.gave_back()
            self._give_back(self._backlog.clear())
        else:
            self._impatience = self._loop.call_later(PATIENCE_S - waited, self._watch_waiting)

    def _give_back(self, unstarted: list[Execution]) -> None:
        leases = [execution.claim.lease for execution in unstarted]
        for lease in leases:
            del self._held[lease]
        self._settling.soon([Settlement(lease, Released()) for lease in leases])

    # --- interrupting

    def _interrupt(
        self, execution: Execution, why: Interrupt, grace_s: float | None = None
    ) -> None:
        if execution.interrupted is not None and why is not Interrupt.LOST:
            return
        execution.interrupted = why
        if self._backlog.remove(execution):
            del self._held[execution.claim.lease]
            self._settling.soon(settlements_of(execution, None))
            return
        execution.context.interrupt(why)
        self._runners[execution.kind.isolation].interrupt(execution)
        execution.stop_timer()
        grace = self._settings.grace_s if grace_s is None else grace_s
        execution.timer = self._loop.call_later(grace, self._leave_behind, execution)

    def _leave_behind(self, execution: Execution) -> None:
        """Settle a job whose handler does not stop; the slot stays taken until it does."""
        fields = {**execution.fields(), "why": execution.interrupted}
        log.error("a handler did not stop when told to; its slot stays taken", extra=fields)
        execution.abandoned = True
        self._moved.set()
        self._settling.soon(settlements_of(execution, None))

    async def _follow_cancels(self) -> None:
        signal = self._engine.store.subscribe(Topic.CANCELS)
        with contextlib.closing(signal):
            while True:
                await signal.wait(NET_S)
                if not self._held:
                    continue
                with contextlib.suppress(StoreUnavailable):
                    for lease, cancel_requested in await self._engine.store.held_by(self.id):
                        execution = self._held.get(lease)
                        if cancel_requested and execution is not None:
                            self._interrupt(execution, Interrupt.CANCEL)

    def _taken_for_lost(self) -> None:
        self._lives += 1
        for execution in self._backlog.clear():
            del self._held[execution.claim.lease]
        for execution in list(self._held.values()):
            self._interrupt(execution, Interrupt.LOST)

    # --- finishing

    def _finished(self, ended: Ended, begun: list[Execution]) -> None:
        settlements = []
        for execution, outcome in ended:
            execution.stop_timer()
            del self._held[execution.claim.lease]
            if execution.must_not_be_lost:
                self._pace.gave_back()  # it would have been: the next may be like it
            else:
                self._pace.ended(execution.ended_at - execution.started_at)
            if not execution.abandoned:
                for settlement in settlements_of(execution, outcome):
                    count(self._engine.metrics, execution, settlement)
                    settlements.append(settlement)
        for execution in begun:
            if not execution.ended_at and execution.interrupted is None:
                self._start_timer(execution)
        self._moved.set()
        self._start_next()
        if self._maybe_more and self._room():
            self._wake.set()
        self._settling.soon(settlements)

    def _report_soon(self, execution: Execution) -> None:
        if execution.claim.lease in self._held:
            self._write_soon(self._report(execution))

    async def _report(self, execution: Execution) -> None:
        lease = execution.claim.lease
        report = execution.context.take_report()
        if report is not None and not await persist(lambda: self._engine.report(lease, report)):
            self._interrupt(execution, Interrupt.LOST)

    def _write_soon(self, write: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(write)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    # --- stopping

    async def _stop_claiming(self, claiming: asyncio.Task[None]) -> None:
        # A claim on its way is waited for: cancelled, it could leave jobs that nobody runs.
        self._stopping = True
        self._give_back(self._backlog.clear())
        self._wake.set()
        await asyncio.wait([claiming], timeout=LAST_WRITES_S)
        await _end([claiming])

    async def _drain(self) -> None:
        log.info("draining", extra={"worker": self.id, "jobs": len(self._held)})
        self._probe("worker.draining")
        await self._until(lambda: not self._held, self._settings.drain_s)
        for execution in list(self._held.values()):
            self._interrupt(execution, Interrupt.DRAIN, LAST_GRACE_S)
        await self._until(
            lambda: all(execution.abandoned for execution in self._held.values()),
            LAST_GRACE_S * 2,
        )
        if self._writes:
            await asyncio.wait(self._writes, timeout=LAST_WRITES_S)

    async def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not condition():
                    self._moved.clear()
                    await self._moved.wait()


async def _until_stopped(stop: asyncio.Event, tasks: list[asyncio.Task[None]]) -> None:
    stopping = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopping}:
            task.result()  # none of them ever ends by itself: raise what ended it
    finally:
        stopping.cancel()


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
