"""One attempt of a job on this worker, from its claim to its end."""

from __future__ import annotations

import asyncio

from coatcheck.model.job import Claim
from coatcheck.model.kind import Kind
from coatcheck.worker.attempts.interrupts import Interrupt
from coatcheck.worker.steps.requests import LocalRequests, WorkerServices


class Execution:
    """An attempt that waits for a slot, runs, or has ended.

    Its times are on the monotonic clock, and 0 until they are known.
    """

    __slots__ = (
        "abandoned",
        "begun",
        "claim",
        "claimed_at",
        "context",
        "ended_at",
        "interrupted",
        "killed",
        "kind",
        "requests",
        "started_at",
        "task",
        "timer",
    )

    def __init__(self, claim: Claim, kind: Kind, services: WorkerServices) -> None:
        self.claim = claim
        self.kind = kind
        self.requests = LocalRequests(services, claim, kind)
        self.context = self.requests.context
        self.claimed_at = 0.0
        self.started_at = 0.0
        self.ended_at = 0.0
        self.interrupted: Interrupt | None = None
        self.abandoned = False
        self.killed = False
        self.begun = False
        self.timer: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def fails_if_lost(self) -> bool:
        """Whether the job would fail if its worker died now."""
        terms = self.claim.terms
        return terms.on_lost == "fail" or self.claim.attempt >= terms.max_attempts

    def set_input(self, text: str) -> None:
        """Replace the reference to an offloaded input by the input itself."""
        self.claim = self.requests.claim = self.claim._replace(input=text)

    def stop_timer(self) -> None:
        """Cancel the attempt's timer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def log_fields(self) -> dict[str, object]:
        """Return the fields that identify the attempt in a log line."""
        return {
            "job_id": self.claim.lease.job_id,
            "kind": self.claim.kind,
            "attempt": self.claim.attempt,
            "correlation_id": self.claim.correlation_id,
        }
