"""Run the benchmarks on PostgreSQL: `python -m benchmarks.postgres [--quick] [--only NAME]`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.calibration import calibrate
from benchmarks.contestants import Failed
from benchmarks.environments import FOLDER, without_paths
from benchmarks.machine import describe_machine
from benchmarks.plan import Plan
from benchmarks.postgres import plot, writing
from benchmarks.postgres.contestants import EVERYBODY
from benchmarks.postgres.measures import churn, claim_growth, compared, limits, workers
from benchmarks.postgres.server import Server, running_server
from benchmarks.postgres.turns import run_in_turn
from benchmarks.results import Measure

HERE = Path(__file__).parent
MEASURES: dict[str, Callable[[Plan, Server], list[Measure]]] = {
    "enqueue": compared.enqueue,
    "drain": compared.drain,
    "end-to-end": compared.end_to_end,
    "pickup": compared.pickup,
    "steps": compared.steps,
    "workers": workers.measure,
    "claim-growth": claim_growth.measure,
    "limits": limits.measure,
}
NAMES = (*MEASURES, "churn")
LONG_CHURN_JOBS, LONG_CHURN_S = 1_000_000, 3600.0
CHURN_JOBS, CHURN_S = 100_000, 120.0
QUICK_CHURN_JOBS, QUICK_CHURN_S = 5_000, 20.0


def main() -> None:
    """Run the measures, print and save the results."""
    options = arguments()
    # On a signal, clean up as after an error.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    FOLDER.mkdir(exist_ok=True)
    with running_server(FOLDER) as server:
        about, measures = measure_all(options, server)
    # A short or partial run must not replace the numbers of a whole one.
    whole = not options.quick and not options.only
    output = options.output or (HERE.parent / "results" if whole else FOLDER / "results")
    writing.write(about, measures, output)
    note = plot.draw(measures, output / f"{writing.NAME}.svg")
    markdown = writing.as_markdown(about, measures)
    print("\n" + markdown)
    print(f"written to {output}; {note}")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.postgres", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two minutes; fewer settings")
    parser.add_argument(
        "--only",
        action="append",
        choices=sorted(NAMES),
        metavar="NAME",
        help="a measure; may be repeated: " + ", ".join(NAMES),
    )
    parser.add_argument("--rounds", type=int, help="rounds of each measure (3; quick: 1)")
    parser.add_argument("--long", action="store_true", help=f"{LONG_CHURN_JOBS:,} jobs in `churn`")
    parser.add_argument("--churn-jobs", type=int, help=f"jobs of `churn` ({CHURN_JOBS:,})")
    parser.add_argument("--output", type=Path, help="folder for postgres.json, .md and .svg")
    return parser.parse_args()


def churn_of(options: argparse.Namespace) -> Callable[[Plan, Server], list[Measure]]:
    """Return the churn measure in the requested size, bounded in time."""
    jobs, seconds = CHURN_JOBS, CHURN_S
    if options.quick:
        jobs, seconds = QUICK_CHURN_JOBS, QUICK_CHURN_S
    if options.long:
        jobs, seconds = LONG_CHURN_JOBS, LONG_CHURN_S
    if options.churn_jobs:
        jobs, seconds = options.churn_jobs, LONG_CHURN_S
    return partial(churn.measure, jobs=jobs, seconds=seconds)


def attempt(
    name: str, measure: Callable[[Plan, Server], list[Measure]], plan: Plan, server: Server
) -> list[Measure]:
    """Run one measure. If it fails, report that and continue with the others."""
    try:
        return measure(plan, server)
    except Exception as error:  # noqa: BLE001 - whatever it was, it is reported
        traceback.print_exc()
        note = without_paths(f"failed: {type(error).__name__}: {error}")
        return [Measure(name, name, "", [], notes=[note])]


def measure_all(
    options: argparse.Namespace, server: Server
) -> tuple[dict[str, Any], list[Measure]]:
    """Calibrate, describe the systems, run the measures, calibrate again."""
    began = time.monotonic()
    plan = Plan(
        folder=server.folder,
        rounds=options.rounds or (1 if options.quick else 3),
        seconds=0.5 if options.quick else 1.0,
        probes=20 if options.quick else 40,
        quick=options.quick,
    )
    about: dict[str, Any] = {
        "made_at": time.strftime("%Y-%m-%d"),
        "quick": options.quick,
        "rounds": plan.rounds,
        "machine": describe_machine(server.folder),
        "server": server.settings(),
        "calibration": [calibrate(server.folder, 0.5)],
        "systems": {},
    }
    asked = options.only or NAMES
    if set(asked) & {"enqueue", "drain", "end-to-end", "pickup"}:
        about["systems"] = describe_all(plan, server)
    measures: list[Measure] = []
    for name in asked:
        start = time.monotonic()
        print(f"{name} …", end=" ", flush=True)
        measure = churn_of(options) if name == "churn" else MEASURES[name]
        measures += attempt(name, measure, plan, server)
        print(f"{time.monotonic() - start:.0f} s", flush=True)
    about["calibration"].append(calibrate(server.folder, 0.5))
    about["disk"] = plan.disk
    about["load_after"] = round(os.getloadavg()[0], 2)
    about["minutes"] = (time.monotonic() - began) / 60
    return about, measures


def describe_all(plan: Plan, server: Server) -> dict[str, Any]:
    """Describe every system; one that fails is left out and reported."""
    systems: dict[str, Any] = {}
    for one in plan.taking_part(EVERYBODY):
        try:
            systems[one.label] = run_in_turn(plan, server, one, "describe")
        except Failed as error:
            plan.absent[one.name] = str(error)
            systems[one.label] = {"failed": str(error)}
    return systems


if __name__ == "__main__":
    main()
