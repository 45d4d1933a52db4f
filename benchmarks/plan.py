"""How long, how often and where a run measures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.contestants import Contestant


@dataclass(frozen=True)
class Plan:
    """One run of the benchmarks."""

    # On the file system that is measured; emptied afterwards.
    folder: Path
    rounds: int
    # How long jobs are handed in for, in each round of each system.
    seconds: float
    probes: int
    quick: bool
    # Systems that could not even be described: named once, then left out.
    absent: dict[str, str] = field(default_factory=dict)
    # How many syncs a second the disk did, just before each run of anybody.
    disk: list[float] = field(default_factory=list)

    def taking_part(self, contestants: Iterable[Contestant]) -> list[Contestant]:
        """Return those that run: all, or in a quick run the essential ones."""
        return [one for one in contestants if one.essential or not self.quick]

    def once(self) -> Plan:
        """Return the same plan with a single round, for what hardly varies and takes long."""
        return replace(self, rounds=1)
