"""What a tenant has used: counted for each kind and hour, in the transactions that make it so."""

from __future__ import annotations

from typing import NamedTuple

from coatcheck.model.payload import is_reference, read_reference
from coatcheck.model.state import State
from coatcheck.model.transition import JobStatus

HOUR_MS = 3_600_000


class Usage(NamedTuple):
    """What was done for a tenant with jobs of one kind, within one hour."""

    tenant: str
    kind: str
    hour: int  # when it began
    submitted: int = 0
    input_bytes: int = 0
    runs: int = 0  # how often a worker has begun with a job and let go of it, however
    run_ms: int = 0  # how long those took
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0

    def plus(self, other: Usage) -> Usage:
        """Add what was done in the same hour."""
        added = (mine + more for mine, more in zip(self[3:], other[3:], strict=True))
        return Usage(*self[:3], *added)


def hour_of(moment: int) -> int:
    """Return when the hour of a moment began."""
    return moment - moment % HOUR_MS


def bytes_of(payload: str) -> int:
    """Return how large a payload is, wherever it is kept."""
    if is_reference(payload):
        return read_reference(payload).size
    return len(payload) if payload.isascii() else len(payload.encode())


def submitted(tenant: str, kind: str, jobs: int, input_bytes: int, now: int) -> Usage:
    """Say what jobs that are handed in use."""
    return Usage(tenant, kind, hour_of(now), submitted=jobs, input_bytes=input_bytes)


def moved(tenant: str, kind: str, before: JobStatus, after: JobStatus, now: int) -> Usage | None:
    """Say what a transition uses, if anything."""
    ran = before.state is State.RUNNING and after.state is not State.RUNNING
    if not ran and not after.state.is_terminal:
        return None
    began = before.started_at if ran else None
    return Usage(
        tenant,
        kind,
        hour_of(now),
        runs=int(ran),
        run_ms=0 if began is None else max(0, now - began),
        succeeded=int(after.state is State.SUCCEEDED),
        failed=int(after.state is State.FAILED),
        cancelled=int(after.state is State.CANCELLED),
    )
