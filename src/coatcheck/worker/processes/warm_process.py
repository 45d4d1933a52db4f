"""Processes at hand: they run a handler for somebody who waits on the line, without a worker.

What takes a moment need not be written down, claimed and written down again before it is answered.
Whoever answers requests has one warm process, which runs one attempt at a time, isolated as those
of a worker are; of confined kinds (confined.py) one for each of the tenants that asked last. The
job is written once it has ended, in one write (`Store.submit_finished`).

Nothing was accepted before that: should this process die, its caller has no answer and no id. And
nothing was done but work that may be done again. So wherever there is no end to write (the process
is starting or busy, takes too long, dies, or the handler asks for something that only a worker has)
the answer is None, and the caller does as if nobody had been at hand: it submits a job.

It is started when it is first asked for, and again after it has died. One that could not be started
is left alone for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from coatcheck.clock import Clock
from coatcheck.errors import CoatcheckError, ConfigurationError
from coatcheck.model.handler import reference_of
from coatcheck.model.job import Claim, JobInsert, Lease
from coatcheck.model.kind import Kind
from coatcheck.model.outcome import GaveUp, Succeeded
from coatcheck.settings import Settings
from coatcheck.store.base import FinishedJob, Report
from coatcheck.worker.attempts.scratch import Scratch
from coatcheck.worker.processes.codec import write_refusal
from coatcheck.worker.processes.confined import Workspace
from coatcheck.worker.processes.orphans import OrphanGuard
from coatcheck.worker.processes.process import STOP_S, Process
from coatcheck.worker.processes.wire import WireMessage, read_files, read_outcome

log = logging.getLogger(__name__)

# One that ended before it was ready is not tried again so soon.
PAUSE_S = 30.0
# Tenants of a confined kind whose process is kept warm.
MOST_KEPT = 4
# The first claim of a job.
FENCE = 1


@dataclass(eq=False, slots=True)
class _Attempt:
    """An attempt that is under way."""

    claim: Claim
    began_at: int
    ended: asyncio.Future[FinishedJob | None]
    asked: bool = False  # for what only a worker has


class WarmProcess:
    """The processes of some kinds, all confined or none. All of it is on the caller's loop."""

    def __init__(self, kinds: Sequence[Kind], settings: Settings, clock: Clock) -> None:
        for kind in kinds:
            reference_of(kind)  # raises now for a handler that no process could import
        self._kinds = kinds
        self._confined = any(kind.confinement is not None for kind in kinds)
        self._settings = settings
        self._scratch = Scratch()
        self._jobs_each = settings.process_jobs
        self._clock = clock
        self._guard: OrphanGuard | None = None
        # By tenant, the one that asked last at the end; by "" if the kinds are not confined.
        self._kept: dict[str, Process[_Attempt]] = {}
        self._processes: set[Process[_Attempt]] = set()  # with those that are about to end
        self._not_before = 0.0
        self._ready = asyncio.Event()
        self._all_gone = asyncio.Event()
        self._closed = False

    async def run(self, job: JobInsert, timeout_s: float) -> FinishedJob | None:
        """Run the first attempt of a job that nobody else knows of; return how the job ended."""
        owner = job.tenant if self._confined else ""
        process = self._kept.pop(owner, None)
        if process is None:
            self._start(owner)
            return None
        self._kept[owner] = process
        if not process.idle:
            return None
        claim = _claim_of(job)
        attempt = _Attempt(claim, self._clock.now(), asyncio.get_running_loop().create_future())
        process.give(attempt, claim)
        try:
            async with asyncio.timeout(timeout_s):
                return await attempt.ended
        except TimeoutError:
            return None
        finally:
            if process.attempt is attempt:  # which nobody waits for any more
                process.kill()

    async def close(self) -> None:
        """End it."""
        self._closed = True
        for process in self._processes:
            if not process.idle:
                process.kill()
            process.retire()
        if self._processes:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_S * 2):
                    await self._all_gone.wait()
        if self._guard is not None:
            self._guard.close()
        self._scratch.close()

    def _start(self, owner: str) -> None:
        if self._closed or self._clock.monotonic() < self._not_before:
            return
        try:
            self._guard = self._guard or OrphanGuard()
            folder = self._scratch.new_folder() if self._confined else None
            workspace = None if folder is None else Workspace.make(folder)
            process = Process(self, self._guard, self._kinds, self._settings, workspace)
        except (OSError, ConfigurationError) as error:
            self._pause(getattr(error, "strerror", None) or str(error))
            return
        self._kept[owner] = process
        self._processes.add(process)
        self._ready.clear()
        self._all_gone.clear()
        self._make_room()

    def _make_room(self) -> None:
        """End the process of the tenant that has not asked for longest, if there are too many."""
        idle = [owner for owner, process in self._kept.items() if process.idle]
        for owner in idle[: max(0, len(self._kept) - MOST_KEPT)]:
            self._kept.pop(owner).retire()

    def _forget(self, process: Process[_Attempt]) -> bool:
        """Give a process no more jobs; tell whether it was to get some."""
        owners = [owner for owner, each in self._kept.items() if each is process]
        for owner in owners:
            del self._kept[owner]
        return bool(owners)

    def _pause(self, why: str) -> None:
        log.error("a process could not be started", extra={"why": why})
        self._not_before = self._clock.monotonic() + PAUSE_S

    def heard(self, process: Process[_Attempt], message: WireMessage) -> None:
        """The process has said something; what a handler says by the way is not kept."""
        header, attempt = message.header, process.attempt
        match message.type:
            case "ready":
                process.ready = True
                self._ready.set()
            case "broken":
                process.why_broken = str(header["message"])
            case "ask" if attempt is not None and header["number"] == process.number:
                attempt.asked = True
                answer = {"type": "answer", "number": process.number, "id": header["id"]}
                process.send(answer, write_refusal(CoatcheckError("only a worker has that")))
            case "begun":
                process.begun += 1
            case "done" if attempt is not None and header["number"] == process.number:
                ended = self._how_it_ended(attempt, message)
                process.attempt = None
                if not header["fit"] or process.begun == self._jobs_each:
                    process.retire()
                    self._forget(process)
                if not attempt.ended.done():
                    attempt.ended.set_result(ended)

    def _how_it_ended(self, attempt: _Attempt, message: WireMessage) -> FinishedJob | None:
        outcome = read_outcome(message.header, message.body)
        if attempt.asked or not isinstance(outcome, Succeeded | GaveUp):
            return None
        files = read_files(message.header["files"], attempt.claim.lease, self._clock.now())
        return FinishedJob(attempt.began_at, outcome, Report(files=tuple(files)) if files else None)

    def gone(self, process: Process[_Attempt]) -> None:
        """The process has ended."""
        attempt, process.attempt = process.attempt, None
        if attempt is not None and not attempt.ended.done():
            attempt.ended.set_result(None)
        if self._forget(process) and not process.ready and not self._closed:
            self._pause(process.why_broken or process.how_it_ended())
        self._processes.discard(process)
        if not self._processes:
            self._all_gone.set()


def _claim_of(job: JobInsert) -> Claim:
    return Claim(
        lease=Lease(job.tenant, job.id, FENCE),
        kind=job.kind,
        surface=job.surface,
        queue=job.queue,
        input=job.input,
        attempt=1,
        terms=job.terms,
        run_at=job.run_at,
        correlation_id=job.correlation_id,
        traceparent=job.traceparent,
    )
