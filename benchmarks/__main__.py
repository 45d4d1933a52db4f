"""Run the benchmarks: `python -m benchmarks [--quick] [--only NAME] [--rounds N]`."""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from benchmarks import plot, report
from benchmarks.calibration import calibrate
from benchmarks.contestants import DBOS_DIRECT, EVERYBODY, Failed, run
from benchmarks.environments import FOLDER, without_paths
from benchmarks.machine import describe_machine
from benchmarks.measures import (
    beside_batch,
    busy_worker,
    claim_growth,
    drain,
    end_to_end,
    enqueue,
    idle,
    isolation,
    limits,
    over_http,
    pickup,
    steps,
    switch_interval,
    syncs,
    with_keys,
)
from benchmarks.plan import Plan
from benchmarks.results import Measure

MEASURES = {
    "enqueue": enqueue.measure,
    "drain": drain.measure,
    "end-to-end": end_to_end.measure,
    "http": over_http.measure,
    "with-keys": with_keys.measure,
    "pickup": pickup.measure,
    "steps": steps.measure,
    "beside-batch": beside_batch.measure,
    "busy-worker": busy_worker.measure,
    "idle": idle.measure,
    "isolation": isolation.measure,
    "claim-growth": claim_growth.measure,
    "limits": limits.measure,
    "switch-interval": switch_interval.measure,
    "syncs": syncs.measure,
}
HERE = Path(__file__).parent


def main() -> None:
    """Run the measures, print and save the results."""
    options = arguments()
    FOLDER.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="measure-", dir=FOLDER))
    try:
        about, measures = measure_all(options, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    # A short or partial run must not replace the numbers of a whole one.
    whole = not options.quick and not options.only
    output = options.output or (HERE / "results" if whole else FOLDER / "results")
    report.write(about, measures, output)
    note = plot.draw(measures, output / "latest.svg")
    markdown = report.as_markdown(about, measures)
    print("\n" + markdown)
    print(f"written to {output}; {note}")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about a minute; fewer settings")
    parser.add_argument(
        "--only",
        action="append",
        choices=sorted(MEASURES),
        metavar="NAME",
        help="a measure; may be repeated: " + ", ".join(MEASURES),
    )
    parser.add_argument("--rounds", type=int, help="rounds of each measure (5; quick: 1)")
    parser.add_argument("--output", type=Path, help="folder for latest.json, .md and .svg")
    return parser.parse_args()


def attempt(name: str, plan: Plan) -> list[Measure]:
    """Run one measure. If it fails, report that and continue with the others."""
    try:
        return MEASURES[name](plan)
    except Exception as error:  # noqa: BLE001 - whatever it was, it is reported
        traceback.print_exc()
        note = without_paths(f"failed: {type(error).__name__}: {error}")
        return [Measure(name, name, "", [], notes=[note])]


def measure_all(options: argparse.Namespace, folder: Path) -> tuple[dict[str, Any], list[Measure]]:
    """Calibrate, describe the systems, run the measures, calibrate again."""
    plan = Plan(
        folder=folder,
        rounds=options.rounds or (1 if options.quick else 5),
        seconds=0.5 if options.quick else 2.0,
        probes=20 if options.quick else 60,
        quick=options.quick,
    )
    about: dict[str, Any] = {
        "made_at": time.strftime("%Y-%m-%d"),
        "quick": options.quick,
        "rounds": plan.rounds,
        "machine": describe_machine(folder),
        "calibration": [calibrate(folder, plan.seconds)],
        "systems": {},
    }
    for one in plan.taking_part((*EVERYBODY, DBOS_DIRECT)):
        try:
            about["systems"][one.label] = run(one, "describe", folder)
        except Failed as error:
            plan.absent[one.name] = str(error)
            about["systems"][one.label] = {"failed": str(error)}
    measures = []
    for name in options.only or MEASURES:
        start = time.monotonic()
        print(f"{name} …", end=" ", flush=True)
        measures += attempt(name, plan)
        print(f"{time.monotonic() - start:.0f} s", flush=True)
    about["calibration"].append(calibrate(folder, plan.seconds))
    about["disk"] = plan.disk
    return about, measures


if __name__ == "__main__":
    main()
