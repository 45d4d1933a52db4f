"""The worker: claims jobs up to its free slots, has them run, and settles them.

Everything here runs on one event loop that no handler ever runs on (see runners.py), so a handler
that blocks, hangs or eats the processor delays neither heartbeats nor settles.

The life of a worker:

1. It registers under an id that is new at every start, and heartbeats from then on (presence.py).
2. It claims when it is woken (a job was submitted, a slot came free, a delayed job is due) and as
   a net every few seconds. A claim takes at most as many jobs as there are free slots, and only of
   kinds it has.
3. Each job has a timer. When it runs out, when the job is cancelled, or when the worker must stop,
   the handler is *interrupted*: told to stop, given a grace period, and then left behind: the job
   is settled without it, and its slot stays taken until the handler really returns.
4. While the store is down it keeps what its handlers have finished and tries again, with a pause
   that grows (outage.py); nothing is lost unless the process is.
5. When it learns that it was taken for lost, its jobs belong to others. It interrupts what it runs,
   writes nothing more about it, and registers anew.
6. Told to stop, it claims no more, lets its jobs finish for the drain time, gives the rest back
   without consuming their attempt, and says goodbye.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from coatcheck.engine.engine import Engine
from coatcheck.errors import StoreError, StoreUnavailable
from coatcheck.model.job import Claim, Failure, Lease
from coatcheck.model.outcome import Cancelled, Errored, GaveUp, Outcome, Released, Succeeded
from coatcheck.model.state import Reason
from coatcheck.settings import Settings
from coatcheck.store.base import Settlement, Topic
from coatcheck.worker.attempt import claim_delay
from coatcheck.worker.context import Interrupt
from coatcheck.worker.outage import Pauses, persist
from coatcheck.worker.presence import Presence
from coatcheck.worker.probe import Probe, no_probe
from coatcheck.worker.reports import Reports
from coatcheck.worker.runners import AsyncRunner, Execution, Finished, NewLoop, ThreadRunner
from coatcheck.worker.watchdog import watch_for_blocking

log = logging.getLogger(__name__)

# Look for work unasked this often.
NET_S = 10.0
# Handlers that outlive the drain have this long to clean up before they are left behind.
LAST_GRACE_S = 1.0
# How long a stopping worker keeps trying to write what its handlers finished.
LAST_WRITES_S = 5.0
UNHEARD_OF_PAUSE_S = 1.0


class Worker:
    """One worker in one process. It is made and run on the event loop it works on."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        *,
        new_loop: NewLoop = asyncio.new_event_loop,
        probe: Probe = no_probe,
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
        finished = Finished(self._finished)
        self._async = AsyncRunner(finished, new_loop)
        self._threads = ThreadRunner(finished)
        self._reports = Reports(self._report_soon)
        self._running: dict[Lease, Execution] = {}
        self._settling: set[Lease] = set()  # finished, and not known to be written yet
        self._writes: set[asyncio.Task[None]] = set()
        self._moved = asyncio.Event()  # an execution has ended, or was left behind
        self._maybe_more = False  # the last claim filled every slot
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
            asyncio.create_task(watch_for_blocking(self._async, lambda: bool(self._running))),
        ]
        try:
            await _until_stopped(stop, [claiming, beating, *others])
        finally:
            await self._stop_claiming(claiming)
            await self._drain()
            await _end([beating, *others])
            await self._presence.leave()
            self._async.close()
            self._threads.close()
            log.info("worker stopped", extra={"worker": self.id})

    # --- claiming

    async def _claim(self) -> None:
        pauses = Pauses()
        unsure = False  # a claim was sent and its answer never came
        while not self._stopping:
            wait = NET_S
            free = self._settings.slots - len(self._running)
            if free > 0 and self._kinds:
                try:
                    if unsure:
                        await self._give_back_unknown()
                        unsure = False
                    claimed = await self._engine.claim(self.id, self._kinds, free)
                except StoreUnavailable as error:
                    unsure = True
                    await pauses.pause(error)
                    continue
                pauses.reset()
                self._probe("worker.claimed")
                self._start(claimed.claims)
                self._maybe_more = len(claimed.claims) == free
                if claimed.next_due is not None:
                    wait = min(NET_S, max(0, claimed.next_due - self._engine.clock.now()) / 1000)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            self._wake.clear()

    async def _give_back_unknown(self) -> None:
        """Release what a claim took whose answer never came. No claim is on its way meanwhile."""
        held = await self._engine.store.held_by(self.id)
        unknown = [item.lease for item in held if item.lease not in self._running]
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

    def _start(self, claims: list[Claim]) -> None:
        by_isolation: dict[str, list[Execution]] = {"async": [], "thread": []}
        for claim in claims:
            kind = self._engine.kinds[claim.kind]
            execution = Execution(claim, kind, self._reports.note)
            self._running[claim.lease] = execution
            execution.timer = self._loop.call_later(
                self._seconds_left(claim), self._interrupt, execution, Interrupt.TIMEOUT
            )
            by_isolation[kind.isolation].append(execution)
        if by_isolation["async"]:
            self._async.start(by_isolation["async"])
        if by_isolation["thread"]:
            self._threads.start(by_isolation["thread"])

    def _seconds_left(self, claim: Claim) -> float:
        left = claim.terms.timeout_ms
        if claim.terms.deadline_at is not None:
            left = min(left, max(0, claim.terms.deadline_at - self._engine.clock.now()))
        return left / 1000

    # --- interrupting

    def _interrupt(
        self, execution: Execution, why: Interrupt, grace_s: float | None = None
    ) -> None:
        if execution.interrupted is not None and why is not Interrupt.LOST:
            return
        execution.interrupted = why
        execution.context.interrupt(why)
        if execution.kind.isolation == "async":
            self._async.interrupt(execution)
        _stop_timer(execution)
        grace = self._settings.grace_s if grace_s is None else grace_s
        execution.timer = self._loop.call_later(grace, self._leave_behind, execution)

    def _leave_behind(self, execution: Execution) -> None:
        """Settle a job whose handler does not stop; the slot stays taken until it does."""
        fields = {**_fields(execution), "why": execution.interrupted}
        log.error("a handler did not stop when told to; its slot stays taken", extra=fields)
        execution.abandoned = True
        self._moved.set()
        self._settle_soon(self._settlement(execution, None))

    async def _follow_cancels(self) -> None:
        signal = self._engine.store.subscribe(Topic.CANCELS)
        with contextlib.closing(signal):
            while True:
                await signal.wait(NET_S)
                if not self._running:
                    continue
                with contextlib.suppress(StoreUnavailable):
                    for lease, cancel_requested in await self._engine.store.held_by(self.id):
                        execution = self._running.get(lease)
                        if cancel_requested and execution is not None:
                            self._interrupt(execution, Interrupt.CANCEL)

    def _taken_for_lost(self) -> None:
        for execution in list(self._running.values()):
            self._interrupt(execution, Interrupt.LOST)

    # --- finishing

    def _finished(self, ended: list[tuple[Execution, Outcome]]) -> None:
        settlements = []
        for execution, outcome in ended:
            _stop_timer(execution)
            del self._running[execution.claim.lease]
            if not execution.abandoned:
                settlements += self._settlement(execution, outcome)
        self._moved.set()
        if self._maybe_more:
            self._wake.set()
        self._settle_soon(settlements)

    def _settlement(self, execution: Execution, outcome: Outcome | None) -> list[Settlement]:
        verdict = self._verdict(execution, outcome)
        if verdict is None:
            return []
        return [Settlement(execution.claim.lease, verdict, execution.context.take_report())]

    def _verdict(self, execution: Execution, outcome: Outcome | None) -> Outcome | None:
        """Say what to write about an attempt: a success is a success, else why it was stopped."""
        if execution.interrupted is Interrupt.LOST:
            return None
        untouched = execution.interrupted is None
        if outcome is not None and (untouched or isinstance(outcome, Succeeded)):
            return outcome
        match execution.interrupted:
            case Interrupt.CANCEL:
                return Cancelled()
            case Interrupt.DRAIN:
                return Released()
        seconds = execution.claim.terms.timeout_ms / 1000
        error = Failure("timeout", f"the job ran out of time ({seconds:g} s an attempt)")
        return Errored(error, claim_delay(execution.kind, execution.claim), Reason.TIMEOUT)

    def _settle_soon(self, settlements: list[Settlement]) -> None:
        if settlements:
            self._settling.update(settlement.lease for settlement in settlements)
            self._write_soon(self._settle(settlements))

    async def _settle(self, settlements: list[Settlement]) -> None:
        self._probe("worker.before_settle")
        try:
            answers = await persist(lambda: self._engine.settle(settlements))
        except (StoreError, TypeError, ValueError) as error:
            await self._settle_apart(settlements, error)
            return
        except Exception as error:
            # Unheard of: no verdict on the jobs. What they did is kept, and tried again.
            log.exception("settling failed", exc_info=error)
            await asyncio.sleep(UNHEARD_OF_PAUSE_S)
            self._write_soon(self._settle(settlements))
            return
        self._probe("worker.after_settle")
        self._settling.difference_update(settlement.lease for settlement in settlements)
        for settlement, settled in zip(settlements, answers, strict=True):
            if not settled:
                fields = {"job_id": settlement.lease.job_id}
                log.warning("a job had been taken away; its outcome is dropped", extra=fields)

    async def _settle_apart(self, settlements: list[Settlement], error: Exception) -> None:
        """One of these can never be written: let the others not suffer for it."""
        if len(settlements) > 1:
            for settlement in settlements:
                await self._settle([settlement])
            return
        lease, outcome, _ = settlements[0]
        log.error("an outcome cannot be written", exc_info=error, extra={"job_id": lease.job_id})
        self._settling.discard(lease)
        refused = GaveUp(Failure("invalid-outcome", "how the job ended could not be written down"))
        if outcome != refused:
            await self._settle([Settlement(lease, refused)])

    def _report_soon(self, execution: Execution) -> None:
        if execution.claim.lease in self._running:
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
        self._wake.set()
        await asyncio.wait([claiming], timeout=LAST_WRITES_S)
        await _end([claiming])

    async def _drain(self) -> None:
        log.info("draining", extra={"worker": self.id, "jobs": len(self._running)})
        await self._until(lambda: not self._running, self._settings.drain_s)
        for execution in list(self._running.values()):
            self._interrupt(execution, Interrupt.DRAIN, LAST_GRACE_S)
        await self._until(
            lambda: all(execution.abandoned for execution in self._running.values()),
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


def _stop_timer(execution: Execution) -> None:
    if execution.timer is not None:
        execution.timer.cancel()
        execution.timer = None


def _fields(execution: Execution) -> dict[str, object]:
    claim = execution.claim
    return {
        "job_id": claim.lease.job_id,
        "kind": claim.kind,
        "attempt": claim.attempt,
        "correlation_id": claim.correlation_id,
    }
