"""The maintenance part of a store: the sweep, secure deletion, and counters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class SweepResult(NamedTuple):
    """The outcome of one bounded sweep. Sweep again while `more` is true."""

    expired: int = 0
    deleted: int = 0
    batches: int = 0
    more: bool = False


class MaintenanceStore(Protocol):
    """The verbs of periodic work."""

    async def sweep(self, now: int) -> SweepResult:
        """Do a bounded amount of overdue work. Any process may call it at any time.

        - Fail jobs past their deadline. Running ones are failed a while later; their lease is then
          stale.
        - Delete inputs whose retention has passed.
        - Delete jobs whose retention has passed, unless the parent is unfinished or a delivery is
          pending.
        - Finish batches that a crash left half-written, and cancellations of many children.
        """
        ...

    async def erase_deleted(self) -> bool:
        """Erase deleted rows from the disk, as far as the store promises that.

        Returns False if it was not possible now.
        """
        ...

    async def increment_counters(self, deltas: Mapping[str, int]) -> None:
        """Add to counters, all in one write."""
        ...

    async def read_counters(self) -> dict[str, int]:
        """Read the counters, such as `stale_writes`."""
        ...
