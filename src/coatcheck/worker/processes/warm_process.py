"""Warm processes that run a handler inside a request, without a worker.

Work that takes a moment need not be submitted, claimed and settled before the request is answered.
A server has one warm process, which runs one attempt at a time, isolated like those of a worker.
For confined kinds (confined.py) it has one process for each of the tenants that used it last. The
job is written once it has finished, in one write (`Store.submit_finished`).

Nothing is accepted before that write. If this process dies, the caller has no response and no id,
and the work may be repeated safely. So whenever there is no outcome to write (the process is
starting or busy, takes too long, dies, or the handler needs something that only a worker has), the
result is None, and the caller submits a job as usual.

A process starts when it is first needed, and again after it has died. If it could not be started,
the next start waits for a while.
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
from coatcheck.worker.processes.codec import write_error
from coatcheck.worker.processes.confined import Workspace
from coatcheck.worker.processes.orphans import OrphanGuard
from coatcheck.worker.processes.process import STOP_S, Process
from coatcheck.worker.processes.wire import WireMessage, read_files, read_outcome

log = logging.getLogger(__name__)

# The pause after a process that ended before it was ready.
PAUSE_S = 30.0
# How many tenants of a confined kind have a warm process.
MAX_WARM = 4
# The fence of a job's first claim.
FENCE = 1


@dataclass(eq=False, slots=True)
class _Attempt:
    """An attempt in progress."""

    claim: Claim
    started_at: int
    finished: asyncio.Future[FinishedJob | None]
    needs_worker: bool = False  # it has made a request that only a worker can perform


class WarmProcess:
    """The warm processes of some kinds, all confined or none. Used on one event loop."""

    def __init__(self, kinds: Sequence[Kind], settings: Settings, clock: Clock) -> None:
        for kind in kinds:
            reference_of(kind)  # raises now if no process could import the handler
        self._kinds = kinds
        self._confined = any(kind.confinement is not None for kind in kinds)
        self._settings = settings
        self._scratch = Scratch()
        self._max_jobs = settings.process_jobs
        self._clock = clock
        self._guard: OrphanGuard | None = None
        # By tenant, the most recently used last; under "" if the kinds are not confined.
        self._warm: dict[str, Process[_Attempt]] = {}
        self._processes: set[Process[_Attempt]] = set()  # including those that are about to end
        self._retry_at = 0.0
        self._ready = asyncio.Event()
        self._all_gone = asyncio.Event()
        self._closed = False

    async def run(self, job: JobInsert, timeout_s: float) -> FinishedJob | None:
        """Run the first attempt of a job that is not stored yet; return the finished job, or
        None.
        """
        owner = job.tenant if self._confined else ""
        process = self._warm.pop(owner, None)
        if process is None:
            self._start(owner)
            return None
        self._warm[owner] = process
        if not process.idle:
            return None
        claim = _claim_of(job)
        attempt = _Attempt(claim, self._clock.now(), asyncio.get_running_loop().create_future())
        process.assign(attempt, claim)
        try:
            async with asyncio.timeout(timeout_s):
                return await attempt.finished
        except TimeoutError:
            return None
        finally:
            if process.attempt is attempt:  # nobody waits for it any more
                process.kill()

    async def close(self) -> None:
        """Stop all processes."""
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
        if self._closed or self._clock.monotonic() < self._retry_at:
            return
        try:
            self._guard = self._guard or OrphanGuard()
            folder = self._scratch.new_folder() if self._confined else None
            workspace = None if folder is None else Workspace.make(folder)
            process = Process(self, self._guard, self._kinds, self._settings, workspace)
        except (OSError, ConfigurationError) as error:
            self._pause(getattr(error, "strerror", None) or str(error))
            return
        self._warm[owner] = process
        self._processes.add(process)
        self._ready.clear()
        self._all_gone.clear()
        self._retire_oldest()

    def _retire_oldest(self) -> None:
        """Retire the least recently used idle processes if there are too many."""
        idle = [owner for owner, process in self._warm.items() if process.idle]
        for owner in idle[: max(0, len(self._warm) - MAX_WARM)]:
            self._warm.pop(owner).retire()

    def _drop(self, process: Process[_Attempt]) -> bool:
        """Assign no more jobs to a process; return whether it was in use."""
        owners = [owner for owner, each in self._warm.items() if each is process]
        for owner in owners:
            del self._warm[owner]
        return bool(owners)

    def _pause(self, why: str) -> None:
        log.error("process start failed", extra={"why": why})
        self._retry_at = self._clock.monotonic() + PAUSE_S

    def on_message(self, process: Process[_Attempt], message: WireMessage) -> None:
        """Handle a message from a process. Reports of the handler are dropped."""
        header, attempt = message.header, process.attempt
        match message.type:
            case "ready":
                process.ready = True
                self._ready.set()
            case "broken":
                process.start_error = str(header["message"])
            case "request" if attempt is not None and header["number"] == process.number:
                attempt.needs_worker = True
                answer = {"type": "response", "number": process.number, "id": header["id"]}
                process.send(
                    answer, write_error(CoatcheckError("only a worker can perform this request"))
                )
            case "started":
                process.started_jobs += 1
            case "done" if attempt is not None and header["number"] == process.number:
                finished = self._finished_job(attempt, message)
                process.attempt = None
                if not header["fit"] or process.started_jobs == self._max_jobs:
                    process.retire()
                    self._drop(process)
                if not attempt.finished.done():
                    attempt.finished.set_result(finished)

    def _finished_job(self, attempt: _Attempt, message: WireMessage) -> FinishedJob | None:
        outcome = read_outcome(message.header, message.body)
        if attempt.needs_worker or not isinstance(outcome, Succeeded | GaveUp):
            return None
        files = read_files(message.header["files"], attempt.claim.lease, self._clock.now())
        return FinishedJob(
            attempt.started_at, outcome, Report(files=tuple(files)) if files else None
        )

    def on_ended(self, process: Process[_Attempt]) -> None:
        """Handle the end of a process."""
        attempt, process.attempt = process.attempt, None
        if attempt is not None and not attempt.finished.done():
            attempt.finished.set_result(None)
        if self._drop(process) and not process.ready and not self._closed:
            self._pause(process.start_error or process.describe_exit())
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
