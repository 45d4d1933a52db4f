"""Systems in turns, as on SQLite, each in a fresh database of one server."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.calibration import syncs_per_second
from benchmarks.contestants import Contestant, Failed, run
from benchmarks.measures.comparison import LOOK_AT_DISK_S, Answer, Turns
from benchmarks.plan import Plan
from benchmarks.postgres.server import Server
from benchmarks.results import Bar, Measure


class PostgresTurns(Turns):
    """The results of all systems by round; a system that fails is left out afterwards."""

    def __init__(
        self,
        plan: Plan,
        server: Server,
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
                        self.answers[one.name][number] = run_in_turn(
                            plan, server, one, verb, **options(one)
                        )
                    except Failed as error:
                        self.failed[one.name] = str(error)


def run_in_turn(
    plan: Plan, server: Server, one: Contestant, verb: str, **options: object
) -> Answer:
    """Run one verb of one system in a database of its own."""
    with server.fresh_database():
        return run(one, verb, plan.folder, **options)


def best_against(measure: Measure, family: str, wanted: float, name: str) -> Bar:
    """Compare our fastest setting with a peer's fastest, by their medians."""
    ours = [row for row in measure.rows if row.family == "coatcheck" and row.median is not None]
    rivals = [row for row in measure.rows if row.family == family and row.median is not None]
    text = f"our fastest setting at least {wanted:g} × {name}"
    if not ours or not rivals:
        return Bar(text, "nothing to compare", None)
    best = max(ours, key=lambda row: row.median or 0)
    fastest = max(rivals, key=lambda row: row.median or 0)
    ratio = (best.median or 0) / (fastest.median or 1)
    return Bar(text, f"{ratio:.1f} × {fastest.label} ({best.label})", ratio >= wanted)
