"""One attempt of one job in the hands of this worker, from its claim to its end."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from coatcheck.clock import Clock
from coatcheck.model.job import Claim
from coatcheck.model.kind import Kind
from coatcheck.worker.attempts.interrupts import Interrupt
from coatcheck.worker.steps.context import Context
from coatcheck.worker.steps.effects import Question
from coatcheck.worker.steps.step_runner import WorkerRequests


class WorkerServices(Protocol):
    """What executions need of their worker; from any thread."""

    clock: Clock

    def note(self, execution: Execution) -> None:
        """Its handler has said something."""
        ...

    def ask(self, execution: Execution, question: Question) -> Future[Any]:
        """Its handler asks for something."""
        ...

    async def inquire(self, execution: Execution, question: Question) -> Any:
        """Its handler does so on a loop of its own."""
        ...


class Execution(WorkerRequests):
    """An attempt that waits for a slot, runs, or has ended; its times are on the monotonic clock,
    and 0 until the moment has come.
    """

    __slots__ = (
        "_desk",
        "abandoned",
        "begun",
        "claim",
        "claimed_at",
        "context",
        "ended_at",
        "inbox",
        "interrupted",
        "killed",
        "kind",
        "report_noted",
        "reporting",
        "started_at",
        "task",
        "timer",
    )

    def __init__(self, claim: Claim, kind: Kind, desk: WorkerServices) -> None:
        self.claim = claim
        self.kind = kind
        self._desk = desk
        self.context = Context(
            claim,
            blocking=kind.isolation == "thread",
            on_report=partial(desk.note, self),
            port=self,
            clock=desk.clock,
            backoff=kind.backoff,
        )
        self.claimed_at = 0.0
        self.started_at = 0.0
        self.ended_at = 0.0
        self.inbox: Path | None = None  # where its files go; None: the worker's own folder
        self.interrupted: Interrupt | None = None
        self.abandoned = False
        self.killed = False
        self.begun = False
        self.report_noted = False
        self.reporting: Future[None] | None = None  # a report that is being written
        self.timer: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def must_not_be_lost(self) -> bool:
        """Whether the job would fail if its worker died now."""
        terms = self.claim.terms
        return terms.on_lost == "fail" or self.claim.attempt >= terms.max_attempts

    @property
    def clock(self) -> Clock:
        """The worker's."""
        return self._desk.clock

    def ask(self, question: Question) -> Future[Any]:
        """Ask the worker, from any thread, for what the handler needs."""
        return self._desk.ask(self, question)

    async def inquire(self, question: Question) -> Any:
        """Do the same on the handler's loop."""
        return await self._desk.inquire(self, question)

    def stop_timer(self) -> None:
        """Forget what was to happen to it."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def fields(self) -> dict[str, object]:
        """Return what a log line says to name it."""
        return {
            "job_id": self.claim.lease.job_id,
            "kind": self.claim.kind,
            "attempt": self.claim.attempt,
            "correlation_id": self.claim.correlation_id,
        }
