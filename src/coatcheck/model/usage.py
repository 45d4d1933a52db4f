"""Usage of tenants: counted per kind and hour, in the transactions of the changes."""

from __future__ import annotations

from typing import NamedTuple

from coatcheck.model.payload import is_reference, read_reference
from coatcheck.model.state import State
from coatcheck.model.transition import JobStatus

HOUR_MS = 3_600_000


class Usage(NamedTuple):
    """The usage of a tenant with jobs of one kind, within one hour."""

    tenant: str
    kind: str
    hour: int  # its start
    submitted: int = 0
    input_bytes: int = 0
    runs: int = 0  # attempts that have ended, however they did
    run_ms: int = 0  # their total duration
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0

    def plus(self, other: Usage) -> Usage:
        """Add the usage of the same hour."""
        added = (mine + more for mine, more in zip(self[3:], other[3:], strict=True))
        return Usage(*self[:3], *added)


def hour_of(moment: int) -> int:
    """Return the start of the hour."""
    return moment - moment % HOUR_MS


def bytes_of(payload: str) -> int:
    """Return the size of a payload, inline or in the blob store."""
    if is_reference(payload):
        return read_reference(payload).size
    return len(payload) if payload.isascii() else len(payload.encode())


def submitted(tenant: str, kind: str, jobs: int, input_bytes: int, now: int) -> Usage:
    """Return the usage of submitted jobs."""
    return Usage(tenant, kind, hour_of(now), submitted=jobs, input_bytes=input_bytes)


def moved(tenant: str, kind: str, before: JobStatus, after: JobStatus, now: int) -> Usage | None:
    """Return the usage of a transition, or None."""
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
