"""Run Coatcheck and the peers in turns: every system once per round, every other round backwards.

A disk that is slow for a while then affects all of them, and ratios compare numbers of one round.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.calibration import syncs_per_second
from benchmarks.contestants import Contestant, Failed, run
from benchmarks.plan import Plan
from benchmarks.results import Row

Answer = dict[str, Any]

# Measured before each run, to detect a disk whose speed changes.
LOOK_AT_DISK_S = 0.1


class Turns:
    """The results of all systems by round; a system that fails is left out afterwards."""

    def __init__(
        self,
        plan: Plan,
        verb: str,
        contestants: Sequence[Contestant],
        options: Callable[[Contestant], Answer],
    ) -> None:
        self.contestants = plan.taking_part(contestants)
        self.answers: dict[str, dict[int, Answer]] = {one.name: {} for one in self.contestants}
        self.failed = {one.name: plan.absent.get(one.name) for one in self.contestants}
        for number in range(plan.rounds):
            for one in self.contestants if number % 2 == 0 else reversed(self.contestants):
                if self.failed[one.name] is None:
                    plan.disk.append(syncs_per_second(plan.folder, LOOK_AT_DISK_S))
                    try:
                        answer = run(one, verb, plan.folder, **options(one))
                    except Failed as error:
                        self.failed[one.name] = str(error)
                    else:
                        self.answers[one.name][number] = answer

    def rows(self, value: Callable[[Answer], float], *, higher_is_better: bool = True) -> list[Row]:
        """Return a row for each system, with Coatcheck's ratios to it."""
        samples = {
            name: {number: value(answer) for number, answer in answers.items()}
            for name, answers in self.answers.items()
        }
        ours = next(samples[one.name] for one in self.contestants if one.peer is None)
        rows = []
        for one in self.contestants:
            row = Row(one.label, ours=one.peer is None, family=one.family)
            row.samples = list(samples[one.name].values())
            row.failed = self.failed[one.name]
            if not row.ours:
                row.ours_against = [
                    ours[number] / theirs if higher_is_better else theirs / ours[number]
                    for number, theirs in samples[one.name].items()
                    if number in ours
                ]
            costs = [
                answer["cpu_us_per_job"]
                for answer in self.answers[one.name].values()
                if "cpu_us_per_job" in answer
            ]
            if costs:
                row.extra["cpu_us_per_job"] = statistics.median(costs)
            rows.append(row)
        return rows


def per_second(answer: Answer) -> float:
    """Return the throughput of a result."""
    return float(answer["per_second"])
