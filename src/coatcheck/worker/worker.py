"""The worker: claims jobs for its slots, runs them, and settles them.

Everything here runs on one event loop. Handlers never run on it (attempts/runners.py), so a handler
that blocks, hangs or uses all of the processor delays neither heartbeats nor settles.

The life of a worker:

1. It registers under a new id at every start, and sends heartbeats from then on (heartbeat.py).
2. It claims jobs of its kinds when it is woken, and every few seconds as a safety net (claimer.py).
   Handlers in processes and all others have separate slots, and are claimed for separately
   (slots/pool.py). A claim takes at most as many jobs as there are free slots, unless recent jobs
   were very short (slots/prefetch.py). A claimed job without a slot waits for one (slots/slots.py),
   and is released if that takes too long. A job that would fail if the worker died never waits: it
   must not fail without having been started.
3. Each running job has a timer (attempts/timers.py). At its timeout, on a cancel, or when the
   worker must stop, the handler is *interrupted*: it is told to stop, and has a grace period. After
   that, a process is killed. Other handlers cannot be killed and are *abandoned*: the job is
   settled without them, and their slot stays taken until they return.
4. While the store is unavailable, the worker keeps the outcomes of its jobs and retries with
   growing pauses (store_retry.py). Outcomes are lost only if the process dies.
5. If the worker was declared lost, its jobs belong to others. It drops the jobs that wait,
   interrupts those that run, writes nothing more about either, and registers under a new id.
6. To stop, it claims no more, releases the jobs that wait, and lets running jobs finish for the
   drain time. It releases the rest without using up their attempt, and deregisters.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
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
from coatcheck.worker.attempts.reporter import Reporter
from coatcheck.worker.attempts.runners import (
    AsyncRunner,
    FinishedAttempts,
    NewLoop,
    Runner,
    SlotHandover,
    ThreadRunner,
    watch_for_blocking,
)
from coatcheck.worker.attempts.scratch import Scratch
from coatcheck.worker.attempts.settlement import count_outcome, make_settlements
from coatcheck.worker.attempts.timers import AttemptTimers
from coatcheck.worker.claimer import POLL_S, Claimer
from coatcheck.worker.failpoints import Failpoint, no_failpoint
from coatcheck.worker.heartbeat import Heartbeat
from coatcheck.worker.processes.pool import ProcessRunner
from coatcheck.worker.slots.pool import SlotPool, make_slot_pools
from coatcheck.worker.slots.prefetch import LONGEST_WAIT_S, Prefetch
from coatcheck.worker.steps.requests import WorkerServices

log = logging.getLogger(__name__)

# Handlers that outlive the drain have this long to clean up before they are abandoned.
LAST_GRACE_S = 1.0
# A killed process has ended by then, unless the kernel itself is stuck.
KILL_S = 5.0
# How long a stopping worker tries to write the outcomes of its jobs.
LAST_WRITES_S = 5.0


class Worker:
    """One worker in one process. Create it on the event loop that it runs on."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        *,
        new_loop: NewLoop = asyncio.new_event_loop,
        failpoint: Failpoint = no_failpoint,
        prefetch: Prefetch | None = None,
        scratch: Path | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._engine = engine
        self._settings = settings
        self._failpoint = failpoint
        self._pool_of = make_slot_pools(
            engine.kinds.values(), settings, engine.clock.monotonic, prefetch or Prefetch()
        )
        self._pools = [pool for pool in dict.fromkeys(self._pool_of.values()) if pool.kinds]
        self._held: dict[Lease, Execution] = {}  # attempts that wait for a slot, and that run
        self._writes: set[asyncio.Task[None]] = set()
        self._attempt_ended = asyncio.Event()  # or was abandoned
        self._stopping = False
        self._scratch = Scratch(scratch)
        self._timers = AttemptTimers(
            engine.clock, lambda execution: self._interrupt(execution, Interrupt.TIMEOUT)
        )
        self._reporter = Reporter(engine, self._write_soon, self._held, self._lose_lease)
        self._completer = Completer(
            engine, self._write_soon, failpoint, self._reporter.in_progress, self._free_slots
        )
        self._services = WorkerServices(
            engine,
            self._loop,
            self._scratch,
            failpoint,
            self._reporter.schedule,
            self._lose_lease,
        )
        self._heartbeat = Heartbeat(
            engine,
            slots=sum(pool.size for pool in self._pools),
            lease_s=settings.lease_s,
            failpoint=failpoint,
        )
        self._claimer = Claimer(
            engine,
            settings,
            self._pools,
            failpoint,
            self._heartbeat,
            is_known=lambda lease: lease in self._held or lease in self._completer,
            on_claimed=self._enqueue,
        )
        self._async = self._start_runners(new_loop)

    def _start_runners(self, new_loop: NewLoop) -> AsyncRunner:
        handover = SlotHandover(self._finish)

        def on_finished(isolation: str) -> Callable[[FinishedAttempts], list[Execution]]:
            return partial(handover.finish, self._pool_of[isolation].slots, isolation)

        async_runner = AsyncRunner(on_finished("async"), new_loop)
        self._runners: dict[str, Runner] = {
            "async": async_runner,
            "thread": ThreadRunner(on_finished("thread"), self._settings.slots),
        }
        if (processes := self._pool_of["process"]).kinds:
            self._runners["process"] = ProcessRunner(
                on_finished("process"),
                [self._engine.kinds[name] for name in processes.kinds],
                self._settings,
                self._engine.clock,
                new_loop,
                processes.size,
                self._scratch,
                None if processes.share is None else processes.share.per_pair,
            )
        return async_runner

    @property
    def id(self) -> str:
        """The id of this registration; empty before the worker has registered."""
        return self._heartbeat.worker_id

    async def run(self, stop: asyncio.Event, ready: Callable[[], None] = lambda: None) -> None:
        """Work until `stop` is set, then drain. Call `ready` once the worker is registered."""
        await asyncio.to_thread(self._scratch.remove_leftovers)
        await self._heartbeat.register()
        self._claimer.wake_all()
        ready()
        slots = sum(pool.size for pool in self._pools)
        fields = {"worker": self.id, "slots": slots, "kinds": sorted(self._engine.kinds)}
        log.info("worker started", extra=fields)
        claiming = asyncio.create_task(self._claimer.run())
        heartbeat = asyncio.create_task(
            self._heartbeat.run(self._abandon_leases, self._claimer.wake_all)
        )
        others = [
            asyncio.create_task(self._claimer.follow_submits()),
            asyncio.create_task(self._follow_cancels()),
            asyncio.create_task(watch_for_blocking(self._async, lambda: bool(self._held))),
            asyncio.create_task(self._remove_leftovers()),
        ]
        try:
            await _wait_for_stop(stop, [claiming, heartbeat, *others])
        finally:
            await self._stop_claiming(claiming)
            await self._drain()
            await _cancel([heartbeat, *others])
            await self._heartbeat.deregister()
            for runner in self._runners.values():
                runner.close()
            await asyncio.to_thread(self._scratch.close)
            log.info("worker stopped", extra={"worker": self.id})

    async def _remove_leftovers(self) -> None:
        """Remove the files of killed workers periodically."""
        while True:
            await asyncio.sleep(self._settings.sweep_s)
            await asyncio.to_thread(self._scratch.remove_leftovers)

    # --- starting

    def _enqueue(self, pool: SlotPool, claims: list[Claim]) -> None:
        kinds = self._engine.kinds
        executions = [Execution(claim, kinds[claim.kind], self._services) for claim in claims]
        self._held.update((execution.claim.lease, execution) for execution in executions)
        pool.slots.enqueue(executions)
        if self._stopping:
            self._release(pool.slots.clear())
            return
        self._start_next(pool)
        if fragile := pool.slots.remove_from(lambda each: each.fails_if_lost):
            pool.record_release()
            self._release(fragile)
        if pool.wait_timer is None:
            self._watch_waiting(pool)

    def _start_next(self, pool: SlotPool) -> None:
        """Start waiting attempts in the free slots."""
        by_isolation: dict[str, list[Execution]] = {}
        started = pool.slots.start_next()
        for execution in started:
            by_isolation.setdefault(execution.kind.isolation, []).append(execution)
        self._timers.add(started)
        for isolation, executions in by_isolation.items():
            self._runners[isolation].start(executions)

    def _watch_waiting(self, pool: SlotPool) -> None:
        """Release all waiting attempts once the first has waited too long."""
        pool.wait_timer = None
        waited = pool.slots.longest_wait()
        if waited is None:
            return
        if waited >= LONGEST_WAIT_S:
            pool.record_release()
            self._release(pool.slots.clear())
        else:
            left = LONGEST_WAIT_S - waited
            pool.wait_timer = self._loop.call_later(left, self._watch_waiting, pool)

    def _release(self, unstarted: list[Execution]) -> None:
        leases = [execution.claim.lease for execution in unstarted]
        for lease in leases:
            del self._held[lease]
        self._completer.settle_soon([Settlement(lease, Released()) for lease in leases])

    # --- interrupting

    def _interrupt(
        self, execution: Execution, reason: Interrupt, grace_s: float | None = None
    ) -> None:
        if execution.interrupted is not None and reason is not Interrupt.LOST:
            return
        execution.interrupted = reason
        if self._pool_of[execution.kind.isolation].slots.remove(execution):
            del self._held[execution.claim.lease]
            self._completer.settle_soon(make_settlements(execution, None))
            return
        execution.context.interrupt(reason)
        self._runners[execution.kind.isolation].interrupt(execution)
        execution.stop_timer()
        grace = self._settings.grace_s if grace_s is None else grace_s
        execution.timer = self._loop.call_later(grace, self._kill_or_abandon, execution)

    def _kill_or_abandon(self, execution: Execution) -> None:
        """Kill a handler that ignored its interrupt. If that is impossible, settle the job without
        the handler; its slot stays taken until it returns.
        """
        fields = {**execution.log_fields(), "why": execution.interrupted}
        if not execution.killed and self._runners[execution.kind.isolation].kill(execution):
            log.warning("handler ignored interrupt: killed", extra=fields)
            execution.killed = True  # the runner reports its end as usual
            execution.timer = self._loop.call_later(KILL_S, self._kill_or_abandon, execution)
            return
        log.error("handler ignored interrupt: abandoned, its slot stays taken", extra=fields)
        execution.abandoned = True
        self._attempt_ended.set()
        self._completer.settle_soon(make_settlements(execution, None))

    async def _follow_cancels(self) -> None:
        signal = self._engine.store.subscribe(Topic.CANCELS)
        with contextlib.closing(signal):
            while True:
                await signal.wait(POLL_S)
                if not self._held:
                    continue
                with contextlib.suppress(StoreUnavailable):
                    for lease, cancel_requested in await self._engine.store.workers.list_held_jobs(
                        self.id
                    ):
                        execution = self._held.get(lease)
                        if cancel_requested and execution is not None:
                            self._interrupt(execution, Interrupt.CANCEL)

    def _abandon_leases(self) -> None:
        """Drop or interrupt every job: the worker was declared lost."""
        self._claimer.discard_claim_in_progress()
        for pool in self._pools:
            for execution in pool.slots.clear():
                del self._held[execution.claim.lease]
        for execution in list(self._held.values()):
            self._interrupt(execution, Interrupt.LOST)

    def _lose_lease(self, lease: Lease) -> None:
        """Interrupt an attempt: a write has found its lease stale."""
        if (execution := self._held.get(lease)) is not None:
            self._interrupt(execution, Interrupt.LOST)

    # --- finishing

    def _finish(self, finished: FinishedAttempts, started: list[Execution]) -> None:
        """Settle finished attempts, and time those that runners started in their slots."""
        settlements = []
        for execution, outcome in finished:
            lease = execution.claim.lease
            execution.stop_timer()
            del self._held[lease]
            if self._scratch.holds(lease):
                self._write_soon(asyncio.to_thread(self._scratch.remove, lease))
            execution.context.end()  # breaks the reference cycle with its requests
            pool = self._pool_of[execution.kind.isolation]
            if execution.fails_if_lost:
                pool.record_release()  # prefetched, it would have been released; so may the next
            else:
                pool.record_run(execution.ended_at - execution.started_at)
            written = [] if execution.abandoned else make_settlements(execution, outcome)
            for settlement in written:
                count_outcome(self._engine.metrics, execution, settlement)
            settlements += written
            if not written:
                pool.slots.free_settled([lease])
        self._timers.add(each for each in started if not each.ended_at and not each.interrupted)
        self._attempt_ended.set()
        for pool in self._pools:
            self._fill(pool)
        self._completer.settle_soon(settlements)

    def _free_slots(self, leases: list[Lease]) -> None:
        """Free the slots that jobs hold until their outcome is written."""
        for pool in self._pools:
            if pool.slots.free_settled(leases):
                held = pool.held_slots()
                # The job that ended may not have been at its share: others may wait for its slot.
                pool.others_may_wait |= held is not None and held.slack <= 0
                self._fill(pool)

    def _fill(self, pool: SlotPool) -> None:
        self._start_next(pool)
        if pool.more_may_wait and pool.claim_limit() > 0:
            self._claimer.wake(pool)

    def _write_soon(self, write: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(write)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        return task

    # --- stopping

    async def _stop_claiming(self, claiming: asyncio.Task[None]) -> None:
        # A claim in progress is waited for: cancelled, it could leave jobs that nobody runs.
        self._stopping = True
        for pool in self._pools:
            self._release(pool.slots.clear())
        self._claimer.stop()
        await asyncio.wait([claiming], timeout=LAST_WRITES_S)
        await _cancel([claiming])

    async def _drain(self) -> None:
        log.info("worker draining", extra={"worker": self.id, "jobs": len(self._held)})
        self._failpoint("worker.draining")
        await self._wait_until(lambda: not self._held, self._settings.drain_s)
        for execution in list(self._held.values()):
            self._interrupt(execution, Interrupt.DRAIN, LAST_GRACE_S)
        await self._wait_until(
            lambda: all(execution.abandoned for execution in self._held.values()),
            LAST_GRACE_S * 2,
        )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WRITES_S):
                while self._writes:  # one may start another
                    await asyncio.wait(self._writes)

    async def _wait_until(self, condition: Callable[[], bool], seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not condition():
                    self._attempt_ended.clear()
                    await self._attempt_ended.wait()


async def _wait_for_stop(stop: asyncio.Event, tasks: list[asyncio.Task[None]]) -> None:
    stopping = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopping}:
            task.result()  # none of them returns: raise its error
    finally:
        stopping.cancel()


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
