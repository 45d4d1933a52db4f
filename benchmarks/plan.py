"""The parameters of a benchmark run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.contestants import Contestant


@dataclass(frozen=True)
class Plan:
    """One run of the benchmarks."""

    # On the measured file system; emptied afterwards.
    folder: Path
    rounds: int
    # How long jobs are submitted, in each round of each system.
    seconds: float
    probes: int
    quick: bool
    # Systems that could not be described; reported once and left out.
    absent: dict[str, str] = field(default_factory=dict)
    # Syncs per second of the disk before each run.
    disk: list[float] = field(default_factory=list)

    def taking_part(self, contestants: Iterable[Contestant]) -> list[Contestant]:
        """Return the systems to run: all, or the essential ones in a quick run."""
        return [one for one in contestants if one.essential or not self.quick]

    def once(self) -> Plan:
        """Return the plan with a single round, for slow measures that hardly vary."""
        return replace(self, rounds=1)
