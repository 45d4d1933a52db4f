"""The worker: claims jobs for its slots, has them run, and settles them.

Everything here runs on one event loop that no handler ever runs on (see runners.py), so a handler
that blocks, hangs or eats the processor delays neither heartbeats nor settles.

The life of a worker:

1. It registers under an id that is new at every start, and heartbeats from then on
   (worker/heartbeat.py).
2. It claims when it is woken (a job was submitted, a slot came free, a delayed job is due) and as a
   net every few seconds, apart for processes and for the rest, which have slots of their own
   (worker/slots/pool.py). A claim takes at most as many jobs as there are free slots, unless they
   have lately been very short (worker/slots/prefetch.py), and only of kinds it has. What has no
   slot yet waits in line for one (worker/slots/slots.py), and is given back if that takes too long.
   A job that would fail if the worker died never waits there: it must not fail without having been
   started.
3. Each job that has started has a timer. When it runs out, when the job is cancelled, or when the
   worker must stop, the handler is *interrupted*: told to stop, and given a grace period. One in a
   process is then killed. Others cannot be, and are left behind: the job is settled without them,
   and their slot stays taken until they really return.
4. While the store is down it keeps what its handlers have finished and tries again, with a pause
   that grows (worker/store_retry.py); nothing is lost unless the process is.
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
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

from coatcheck.engine.engine import Engine
from coatcheck.errors import StoreUnavailable
from coatcheck.model.job import Claim, Lease
from coatcheck.model.outcome import Released
from coatcheck.settings import Settings
from coatcheck.store.base import Settlement, Topic
from coatcheck.worker.attempts.completer import Completer
from coatcheck.worker.attempts.execution import Execution
from coatcheck.worker.attempts.interrupts import Interrupt
from coatcheck.worker.attempts.reports import Reports
from coatcheck.worker.attempts.runners import (
    AsyncRunner,
    Ended,
    NewLoop,
    Runner,
    SlotHandover,
    ThreadRunner,
)
from coatcheck.worker.attempts.scratch import Scratch
from coatcheck.worker.attempts.settlement import count, settlements_of
from coatcheck.worker.failpoints import Probe, no_probe
from coatcheck.worker.heartbeat import Heartbeat
from coatcheck.worker.processes.pool import ProcessRunner
from coatcheck.worker.slots.pool import SlotPool, lanes_of
from coatcheck.worker.slots.prefetch import PATIENCE_S, Prefetch
from coatcheck.worker.steps.requests import RequestHandler
from coatcheck.worker.store_retry import StorePoll, persist
from coatcheck.worker.watchdog import watch_for_blocking

log = logging.getLogger(__name__)

# Look for work unasked this often.
NET_S = 10.0
# Handlers that outlive the drain have this long to clean up before they are left behind.
LAST_GRACE_S = 1.0
# A handler gets its timer only after this long, unless it has less time than that: most short jobs
# never need one, and setting and dropping it costs as much as all else that a start does.
UNTIMED_S = 0.050
# What was killed is gone by then, unless the kernel itself is stuck.
KILL_S = 5.0
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
        pace: Prefetch | None = None,
        scratch: Path | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._engine = engine
        self._settings = settings
        self._probe = probe
        self._kinds = sorted(engine.kinds)
        self._monotonic = engine.clock.monotonic
        self._lane_of = lanes_of(
            engine.kinds.values(), settings, self._monotonic, pace or Prefetch()
        )
        self._lanes = [lane for lane in dict.fromkeys(self._lane_of.values()) if lane.kinds]
        self._slots = sum(lane.slots for lane in self._lanes)
        self._wake = asyncio.Event()  # a lane is to look for work
        self._presence = Heartbeat(
            engine,
            slots=self._slots,
            lease_s=settings.lease_s,
            probe=probe,
            on_registered=self._look_everywhere,
        )
        self._scratch = Scratch(scratch)
        finished = SlotHandover(self._finished)
        self._async = AsyncRunner(
            partial(finished, self._lane_of["async"].backlog, "async"), new_loop
        )
        self._runners: dict[str, Runner] = {
            "async": self._async,
            "thread": ThreadRunner(
                partial(finished, self._lane_of["thread"].backlog, "thread"), settings.slots
            ),
        }
        if (processes := self._lane_of["process"]).kinds:
            self._runners["process"] = ProcessRunner(
                partial(finished, processes.backlog, "process"),
                [engine.kinds[name] for name in processes.kinds],
                settings,
                new_loop,
                processes.slots,
                self._scratch,
                None if processes.share is None else processes.share.per_pair,
            )
        self._answers = RequestHandler(
            engine, Reports(self._report_soon), self._lose, probe, self._scratch
        )
        self._held: dict[Lease, Execution] = {}  # what waits for a slot, and what runs
        self._untimed: list[Execution] = []  # have started, and have no timer yet
        self._timing = False
        self._writes: set[asyncio.Task[None]] = set()
        self._reporting: dict[Lease, asyncio.Task[None]] = {}
        self._settling = Completer(engine, self._write_soon, probe, self._reporting, self._settled)
        self._moved = asyncio.Event()  # an execution has ended, or was left behind
        self._poll = StorePoll(settings.poll_s, settings.longest_poll_s)
        self._unsure = False  # a claim was sent and its answer never came
        self._lives = 0  # how often it was taken for lost
        self._stopping = False

    @property
    def id(self) -> str:
        """The id of this start; empty before it has registered."""
        return self._presence.worker_id

    async def run(self, stop: asyncio.Event, ready: Callable[[], None] = lambda: None) -> None:
        """Work until `stop` is set, then drain. `ready` is called once the worker is known."""
        await asyncio.to_thread(self._scratch.remove_leftovers)
        await self._presence.register()
        ready()
        fields = {"worker": self.id, "slots": self._slots, "kinds": self._kinds}
        log.info("worker started", extra=fields)
        claiming = asyncio.create_task(self._claim())
        beating = asyncio.create_task(self._presence.beat(self._taken_for_lost))
        others = [
            asyncio.create_task(self._follow_work()),
            asyncio.create_task(self._follow_cancels()),
            asyncio.create_task(watch_for_blocking(self._async, lambda: bool(self._held))),
            asyncio.create_task(self._tidy()),
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
            await asyncio.to_thread(self._scratch.close)
            log.info("worker stopped", extra={"worker": self.id})

    async def _tidy(self) -> None:
        """Remove what other workers have left that were killed, time and again."""
        while True:
            await asyncio.sleep(self._settings.sweep_s)
            await asyncio.to_thread(self._scratch.remove_leftovers)

    # --- claiming

    async def _claim(self) -> None:
        poll = self._poll
        while not self._stopping:
            try:
                # First where there was something last: what is next is mostly of the same sort.
                for lane in sorted(self._lanes, key=lambda lane: -lane.found_at):
                    if lane.look:
                        lane.look_at = self._loop.time() + await self._claim_for(lane)
            except StoreUnavailable as error:
                await poll.pause(error)
                continue
            poll.succeeded()
            until = min((lane.look_at for lane in self._lanes), default=None)
            try:
                async with asyncio.timeout_at(until):
                    await self._wake.wait()
            except TimeoutError:
                self._look_everywhere()
            self._wake.clear()

    async def _claim_for(self, lane: SlotPool) -> float:
        """Claim what a lane has room for; return how long it needs not look again unasked."""
        room = limit = lane.room()
        held = lane.held()
        if held is not None and held.slack > 0:
            # Fewer than would exceed the share, whoever they belong to: nobody has to be asked.
            limit, held = min(room, held.slack), None
        if limit <= 0 or (held is not None and not lane.others):
            lane.look = False
            lane.maybe_more = True  # than could be asked for
            return NET_S
        if self._unsure:
            await self._give_back_unknown()
        self._unsure = True
        lane.look = False
        if held is not None:
            lane.others = False  # unless somebody says so before the answer comes
        life = self._lives  # together with the id that claims: it may have changed up to here
        try:
            claimed = await self._engine.claim(self.id, lane.kinds, limit, held)
        except StoreUnavailable:
            lane.look = lane.others = True
            self._engine.metrics.worker_polled("failed", self._poll.interval_s)
            raise
        self._unsure = False
        outcome = "found" if claimed.claims else "nothing"
        self._engine.metrics.worker_polled(outcome, self._poll.interval_s)
        self._probe("worker.claimed")
        if life == self._lives:  # else they were claimed by one who is lost
            self._take_on(lane, claimed.claims)
        lane.claimed(len(claimed.claims), limit)
        if held is not None:
            lane.others |= lane.maybe_more
            lane.maybe_more = True  # of those that have to wait for their share
        elif limit < room and lane.maybe_more:
            lane.look = True
            self._wake.set()
        if claimed.next_due is None:
            return NET_S
        return min(NET_S, max(0, claimed.next_due - self._engine.clock.now()) / 1000)

    def _look_everywhere(self) -> None:
        """Have every lane look for work."""
        for lane in self._lanes:
            lane.look = lane.others = True
        self._wake.set()

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
        self._unsure = False

    async def _follow_work(self) -> None:
        signal = self._engine.store.subscribe(Topic.WORK)
        with contextlib.closing(signal):
            while True:
                await signal.wait()
                self._look_everywhere()

    # --- starting

    def _take_on(self, lane: SlotPool, claims: list[Claim]) -> None:
        kinds = self._engine.kinds
        executions = [Execution(claim, kinds[claim.kind], self._answers) for claim in claims]
        self._held.update((execution.claim.lease, execution) for execution in executions)
        lane.backlog.put(executions)
        if self._stopping:
            self._give_back(lane.backlog.clear())
            return
        self._start_next(lane)
        if fragile := lane.backlog.cut(lambda each: each.must_not_be_lost):
            lane.gave_back()
            self._give_back(fragile)
        if lane.impatience is None:
            self._watch_waiting(lane)

    def _start_next(self, lane: SlotPool) -> None:
        """Start what waits, as far as there are slots for it."""
        by_isolation: dict[str, list[Execution]] = {}
        taken = lane.backlog.take()
        for execution in taken:
            by_isolation.setdefault(execution.kind.isolation, []).append(execution)
        self._time(taken)
        for isolation, executions in by_isolation.items():
            self._runners[isolation].start(executions)

    def _time(self, started: list[Execution]) -> None:
        """Give each its timer, those that have long to go only if they are not done soon."""
        for execution in started:
            terms = execution.claim.terms
            if terms.deadline_at is not None or terms.timeout_ms < UNTIMED_S * 1000:
                self._start_timer(execution)
            else:
                self._untimed.append(execution)
        if self._untimed and not self._timing:
            self._timing = True
            self._loop.call_later(UNTIMED_S, self._time_untimed)

    def _time_untimed(self) -> None:
        self._timing = False
        untimed, self._untimed = self._untimed, []
        for execution in untimed:
            if not execution.ended_at and execution.interrupted is None:
                self._start_timer(execution)

    def _start_timer(self, execution: Execution) -> None:
        terms = execution.claim.terms
        left = terms.timeout_ms / 1000 - (self._monotonic() - execution.started_at)
        if terms.deadline_at is not None:
            left = min(left, (terms.deadline_at - self._engine.clock.now()) / 1000)
        execution.timer = self._loop.call_later(
            max(0, left), self._interrupt, execution, Interrupt.TIMEOUT
        )

    def _watch_waiting(self, lane: SlotPool) -> None:
        """Give all that waits back once the first of it has waited too long."""
        lane.impatience = None
        waited = lane.backlog.longest_wait()
        if waited is None:
            return
        if waited >= PATIENCE_S:
            lane.gave_back()
            self._give_back(lane.backlog.clear())
        else:
            lane.impatience = self._loop.call_later(PATIENCE_S - waited, self._watch_waiting, lane)

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
        if self._lane_of[execution.kind.isolation].backlog.remove(execution):
            del self._held[execution.claim.lease]
            self._settling.soon(settlements_of(execution, None))
            return
        execution.context.interrupt(why)
        self._runners[execution.kind.isolation].interrupt(execution)
        execution.stop_timer()
        grace = self._settings.grace_s if grace_s is None else grace_s
        execution.timer = self._loop.call_later(grace, self._leave_behind, execution)

    def _leave_behind(self, execution: Execution) -> None:
        """Kill a handler that does not stop, where that can be done. Where not, settle the job
        without it; the slot stays taken until it returns.
        """
        fields = {**execution.fields(), "why": execution.interrupted}
        if not execution.killed and self._runners[execution.kind.isolation].kill(execution):
            log.warning("a handler did not stop when told to; it is killed", extra=fields)
            execution.killed = True  # its end is heard of like any other
            execution.timer = self._loop.call_later(KILL_S, self._leave_behind, execution)
            return
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
        for lane in self._lanes:
            for execution in lane.backlog.clear():
                del self._held[execution.claim.lease]
        for execution in list(self._held.values()):
            self._interrupt(execution, Interrupt.LOST)

    # --- finishing

    def _finished(self, ended: Ended, begun: list[Execution]) -> None:
        settlements = []
        for execution, outcome in ended:
            execution.stop_timer()
            del self._held[execution.claim.lease]
            if self._scratch.holds(execution.claim.lease):
                self._write_soon(asyncio.to_thread(self._scratch.drop, execution.claim.lease))
            execution.context.end()  # it refers to its execution: neither would be freed by itself
            lane = self._lane_of[execution.kind.isolation]
            if execution.must_not_be_lost:
                lane.gave_back()  # it would have been: the next may be like it
            else:
                lane.ended(execution.ended_at - execution.started_at)
            written = [] if execution.abandoned else settlements_of(execution, outcome)
            for settlement in written:
                count(self._engine.metrics, execution, settlement)
            settlements += written
            if not written:
                lane.backlog.settled([execution.claim.lease])
        self._time([each for each in begun if not each.ended_at and each.interrupted is None])
        self._moved.set()
        for lane in self._lanes:
            self._fill(lane)
        self._settling.soon(settlements)

    def _settled(self, leases: list[Lease]) -> None:
        """Give back the slots that jobs keep until their end is written."""
        for lane in self._lanes:
            if lane.backlog.settled(leases):
                held = lane.held()
                # One has ended that was not of those at their share: others may wait for it.
                lane.others |= held is not None and held.slack <= 0
                self._fill(lane)

    def _fill(self, lane: SlotPool) -> None:
        self._start_next(lane)
        if lane.maybe_more and lane.room() > 0:
            lane.look = True
            self._wake.set()

    def _report_soon(self, execution: Execution) -> None:
        lease = execution.claim.lease
        if lease in self._held:
            report = self._write_soon(self._report(execution, self._reporting.get(lease)))
            self._reporting[lease] = report
            report.add_done_callback(partial(self._reported, lease))

    def _reported(self, lease: Lease, report: asyncio.Task[None]) -> None:
        if self._reporting.get(lease) is report:
            del self._reporting[lease]

    async def _report(self, execution: Execution, earlier: asyncio.Task[None] | None) -> None:
        if earlier is not None:
            await asyncio.wait([earlier])
        lease = execution.claim.lease
        # Before anything is taken: whoever finds nothing to take along then waits for this.
        written: Future[None] = Future()
        execution.reporting = written
        try:
            report = execution.context.take_report()
            if report is not None and not await persist(lambda: self._engine.report(lease, report)):
                self._lose(execution)
        finally:
            execution.reporting = None
            written.set_result(None)

    def _lose(self, execution: Execution) -> None:
        """A write has found that the job is somebody else's."""
        if execution.claim.lease in self._held:
            self._interrupt(execution, Interrupt.LOST)

    def _write_soon(self, write: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(write)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        return task

    # --- stopping

    async def _stop_claiming(self, claiming: asyncio.Task[None]) -> None:
        # A claim on its way is waited for: cancelled, it could leave jobs that nobody runs.
        self._stopping = True
        for lane in self._lanes:
            self._give_back(lane.backlog.clear())
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
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WRITES_S):
                while self._writes:  # one may lead to another
                    await asyncio.wait(self._writes)

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
