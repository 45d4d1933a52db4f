"""Code graphs: how many calls are found and how many are right, and how fast.

    python -m benchmarks.graphs                    precision and recall over the known programs
    python -m benchmarks.graphs --speed FOLDER ...  megabytes a second on trees of source code

Speed is given beside parsing alone with tree-sitter on as many processes, and the flow of values
(the points-to) apart, for a part and for the whole of a tree: twice the code should take about
twice as long.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.surfaces.graphs.analysis.ground_truth import PROGRAMS, programs

from coatcheck.surfaces.graphs.analysis import SourceFile, analyse
from coatcheck.surfaces.graphs.analysis.languages import language_of, parser_of


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--speed", nargs="+", type=Path, default=[])
    options.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    chosen = options.parse_args()
    if not chosen.speed:
        quality()
    for folder in chosen.speed:
        speed(folder, chosen.workers)


def quality() -> None:
    print("| feature | programs | calls | precision | recall |\n|---|---|---|---|---|")
    for language in sorted(path.name for path in PROGRAMS.iterdir() if path.is_dir()):
        counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        for program in programs(language):
            found, expected = program.found(), program.expected()
            for name in {program.feature, f"{language}, all"}:
                for index, number in enumerate(
                    (1, len(found & expected), len(found - expected), len(expected - found))
                ):
                    counts[name][index] += number
        for name, (number, right, wrong, missed) in sorted(counts.items()):
            precision, recall = right / (right + wrong or 1), right / (right + missed or 1)
            row = f"| {name} | {number} | {right + missed} | {precision:.1%} | {recall:.1%} |"
            if name != language:
                print(row)


def speed(folder: Path, workers: int) -> None:
    paths = [
        path for path in sorted(folder.rglob("*")) if path.is_file() and language_of(path.name)
    ]
    files = [(path.relative_to(folder).as_posix(), path.read_bytes()) for path in paths]
    megabytes = sum(len(content) for _, content in files) / 1e6
    load = os.getloadavg()[0]
    parsed = parse_alone(files, workers)
    reading = timed(files, {"dependency", "parse"}, workers)
    everything = timed(files, {"dependency", "parse", "call"}, workers)
    half = timed(files[::2], {"dependency", "parse", "call"}, workers)
    half_reading = timed(files[::2], {"dependency", "parse"}, workers)
    print(
        f"{folder.name}: {megabytes:.1f} MB in {len(files)} files on {workers} processes, "
        f"load {load:.1f}\n"
        f"  parsing alone           {parsed:6.1f} s  {megabytes / parsed:5.1f} MB/s\n"
        f"  all but points-to       {reading:6.1f} s  {megabytes / reading:5.1f} MB/s  "
        f"{reading / parsed:.1f}x\n"
        f"  everything              {everything:6.1f} s  {megabytes / everything:5.1f} MB/s\n"
        f"  points-to, whole / half {everything - reading:6.1f} / {half - half_reading:.1f} s"
    )


def parse_alone(files: list[tuple[str, bytes]], workers: int) -> float:
    batches = [files[start::64] for start in range(64)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        list(pool.map(parse_batch, [[] for _ in range(workers * 2)]))
        started = time.monotonic()
        list(pool.map(parse_batch, batches))
        return time.monotonic() - started


def parse_batch(batch: list[tuple[str, bytes]]) -> int:
    for path, content in batch:
        try:
            parser_of(language_of(path) or "").parse(content)
        except ValueError:
            print(f"{path} is not parsed in time", file=sys.stderr)
    return len(batch)


def timed(files: list[tuple[str, bytes]], want: set[str], workers: int) -> float:
    started = time.monotonic()
    analyse(
        [SourceFile(path, lambda content=content: content) for path, content in files],
        want,
        workers=workers,
    )
    return time.monotonic() - started


if __name__ == "__main__":
    main()
