"""The part of a store that is about queues: how they stand, and what may start from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from coatcheck.model.job import Job


class QueueStatus(NamedTuple):
    """How a queue stands."""

    name: str
    paused: bool
    ready: int
    delayed: int
    running: int
    oldest_ready: int | None  # when the oldest job that could start now was submitted
    concurrency: int | None = None  # how many of its jobs run at once; None: no limit


class QueueStore(Protocol):
    """The verbs on queues."""

    async def queues(self) -> list[QueueStatus]:
        """List the queues that hold jobs or are paused, by name."""
        ...

    async def queue_names(self, tenant: str, limit: int) -> list[str]:
        """List the first queues, by name, that jobs of a tenant are in, ended ones too."""
        ...

    async def pause_queue(self, name: str, paused: bool, now: int) -> None:
        """Stop or resume claims from a queue; what runs goes on."""
        ...

    async def limit_queue(self, name: str, concurrency: int | None) -> None:
        """Let so many jobs of a queue run at once, of all kinds together; None: no limit."""
        ...

    async def is_held(self, name: str) -> bool:
        """Tell whether a queue is paused or has a limit."""
        ...

    async def ahead_of(self, job: Job, kinds: Sequence[str], most: int) -> int:
        """Count the jobs of these kinds that are due and will be claimed from the job's queue
        before it, up to `most`: those of higher priority, and the older ones of its tenant. Other
        tenants' jobs of its priority take turns with it, however many there are.
        """
        ...
