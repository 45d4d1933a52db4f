"""Crash and resume: the ingest pipeline under Coatcheck and under DBOS 3.

    python -m benchmarks.ingest_crash [--batches 20] [--rounds 5]

One document with the steps extract -> chunk -> embed (a batch of 64 passages each) -> publish, with
the same step functions on both sides (crash/pipeline.py). Each system runs it once without a crash,
to measure a step, and once with a SIGKILL at the end of every batch, when the batch is done but not
recorded, followed by a restart. The report shows:

    repeated        step functions that ran more than once, out of all; one per kill is the minimum,
                    because no engine can know about an unrecorded step
    resume          from the start of the process to its first step, and from when the engine is up
    step            the duration of a step, measured over all steps without a crash

The systems alternate. On a busy machine the numbers mean little; the report includes the load.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.crash.pipeline import BATCH
from benchmarks.environments import ROOT, python_for

SYSTEMS = {
    "Coatcheck": (None, "benchmarks.crash.ours"),
    "DBOS": ("dbos", "benchmarks.crash.dbos_peer"),
}
WORDS = "stands here among other words. " * 30


@dataclass
class Measured:
    """The measurements of one system."""

    steps_ms: list[float] = field(default_factory=list)
    from_start_ms: list[float] = field(default_factory=list)
    from_ready_ms: list[float] = field(default_factory=list)
    bodies: int = 0
    repeated: int = 0
    kills: int = 0
    read_again: int = 0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--batches", type=int, default=20)
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    measured = {name: Measured() for name in SYSTEMS}
    for number in range(chosen.rounds):
        order = list(SYSTEMS) if number % 2 == 0 else list(reversed(SYSTEMS))
        for name in order:
            without_crash(name, chosen.batches, measured[name])
            with_crashes(name, chosen.batches, measured[name])
    report(measured, chosen)


def without_crash(system: str, batches: int, into: Measured) -> None:
    with document(batches) as folder:
        outcome = json.loads(finish(start(system, folder)))
        begun = recorded_calls(folder)
        assert outcome["published"] == batches * BATCH, outcome
        assert len(begun) == batches + 3
        into.steps_ms.append((outcome["ended"] - begun[0][0]) / len(begun) * 1000)


def with_crashes(system: str, batches: int, into: Measured) -> None:
    with document(batches) as folder:
        seen = 0
        for number in range(batches + 1):
            if number < batches:
                (folder / "crash-at").write_text(f"embed {number}")
            started = time.time()
            process = start(system, folder)
            output, _ = process.communicate(timeout=300)
            begun = recorded_calls(folder)
            if number > 0:
                into.from_start_ms.append((begun[seen][0] - started) * 1000)
            if number < batches:
                assert process.returncode == -signal.SIGKILL, process.returncode
                into.kills += 1
            else:
                outcome = json.loads(output.splitlines()[-1])
                assert outcome["published"] == batches * BATCH, outcome
                into.from_ready_ms.append((begun[seen][0] - outcome["ready"]) * 1000)
            seen = len(begun)
        times = Counter(name for _, name in begun)
        into.bodies += len(times)
        into.repeated += sum(times.values()) - len(times)
        into.read_again += times["extract"] + times["chunk"] - 2


def document(batches: int) -> tempfile.TemporaryDirectory[str]:
    class Folder(tempfile.TemporaryDirectory[str]):
        def __enter__(self) -> Path:  # type: ignore[override]
            folder = Path(super().__enter__())
            passages = [f"{number} {WORDS}" for number in range(batches * BATCH)]
            (folder / "document.txt").write_text("\n\n".join(passages))
            return folder

    return Folder(prefix="ingest-crash-")


def start(system: str, folder: Path) -> subprocess.Popen[str]:
    peer, module = SYSTEMS[system]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COATCHECK_LOG_LEVEL": "error"}
    return subprocess.Popen(
        [str(python_for(peer)), "-m", module, str(folder)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, process.returncode
    return output.splitlines()[-1]


def recorded_calls(folder: Path) -> list[tuple[float, str]]:
    lines = (folder / "begun.txt").read_text().splitlines()
    return [(float(at), name) for at, _, name in (line.partition(" ") for line in lines)]


def report(measured: dict[str, Measured], chosen: argparse.Namespace) -> None:
    print(
        f"{chosen.rounds} rounds, {chosen.batches} batches, load {os.getloadavg()[0]:.1f}\n\n"
        "| | kills | bodies run again | extract or chunk again | start to first step | "
        "ready to first step | a step |\n|---|---|---|---|---|---|---|"
    )
    for name, seen in measured.items():
        print(
            f"| {name} | {seen.kills} | {seen.repeated} | {seen.read_again} "
            f"| {statistics.median(seen.from_start_ms):.0f} ms "
            f"| {statistics.median(seen.from_ready_ms):.0f} ms "
            f"| {statistics.median(seen.steps_ms):.2f} ms |"
        )


if __name__ == "__main__":
    main()
