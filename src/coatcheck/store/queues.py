"""The queues part of a store: status, pauses and limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from coatcheck.model.job import Job


class QueueStatus(NamedTuple):
    """The status of a queue."""

    name: str
    paused: bool
    ready: int
    delayed: int
    running: int
    oldest_ready: int | None  # when the oldest claimable job was submitted
    concurrency: int | None = None  # how many of its jobs may run at once; None: no limit


class QueueStore(Protocol):
    """The verbs on queues."""

    async def list_queues(self) -> list[QueueStatus]:
        """List the queues that hold jobs or are paused, by name."""
        ...

    async def list_queue_names(self, tenant: str, limit: int) -> list[str]:
        """List the names of the first queues with jobs of a tenant, finished ones included."""
        ...

    async def pause_queue(self, name: str, paused: bool, now: int) -> None:
        """Pause or resume claims from a queue. Running jobs are unaffected."""
        ...

    async def limit_queue(self, name: str, concurrency: int | None) -> None:
        """Limit how many jobs of a queue run at once, across all kinds. None removes the limit."""
        ...

    async def is_restricted(self, name: str) -> bool:
        """Return whether a queue is paused or has a limit."""
        ...

    async def count_ahead(self, job: Job, kinds: Sequence[str], most: int) -> int:
        """Count the due jobs of these kinds that will be claimed before this one, up to `most`.

        Those are jobs in its queue of a higher priority, and older jobs of its tenant. Jobs of
        other tenants with the same priority take turns with it and do not count.
        """
        ...
