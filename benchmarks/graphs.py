"""Code graphs: precision and recall of calls, and the speed of the analysis.

    python -m benchmarks.graphs                    precision and recall over the known programs
    python -m benchmarks.graphs --speed FOLDER ...  megabytes a second on trees of source code

Speed is compared with parsing alone (tree-sitter on as many processes). Both include the start of
the processes, about half a second. Each is measured for a quarter, a half and the whole of a tree
(`--parts 4 2 1`). "All but points-to" is a graph without calls: the code is read, linked and drawn,
without the flow of values (points-to). The difference to a graph with calls is the cost of
points-to, shown for each kilobyte and for each call found. In a quarter of a tree, three of four
files are missing, so most calls lead out of it and end there. A kilobyte of a quarter is therefore
less work than one of the whole. With `--cpu`, seconds are the CPU time of all processes rather than
elapsed time, so other load on the machine matters less.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.codegraph.ground_truth import PROGRAMS, programs

from coatcheck.codegraph import EdgeKind, SourceFile, analyze
from coatcheck.codegraph.languages import language_of, parser_of

Clock = Callable[[], float]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--speed", nargs="+", type=Path, default=[])
    options.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--cpu", action="store_true")
    options.add_argument("--parts", nargs="+", type=int, default=[4, 2, 1])
    chosen = options.parse_args()
    if not chosen.speed:
        quality()
    for folder in chosen.speed:
        speed(folder, chosen.workers, chosen.parts, computed if chosen.cpu else time.monotonic)


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


def speed(folder: Path, workers: int, parts: list[int], clock: Clock) -> None:
    paths = [
        path for path in sorted(folder.rglob("*")) if path.is_file() and language_of(path.name)
    ]
    files = [(path.relative_to(folder).as_posix(), path.read_bytes()) for path in paths]
    load = os.getloadavg()[0]
    print(f"{folder.name}: {len(files)} files on {workers} processes, load {load:.1f}")
    print(
        "| of the tree | MB | parsing alone | all but points-to | | MB/s | with points-to | MB/s "
        "| points-to us/KB | us/call | nodes and edges | memory |\n|" + 12 * "---|"
    )
    for part in parts:
        chosen = files[::part]
        megabytes = sum(len(content) for _, content in chosen) / 1e6
        parsed = parse_alone(chosen, workers, clock)
        reading = apart(chosen, {"dependency", "parse"}, workers, clock)
        everything = apart(chosen, {"dependency", "parse", "call"}, workers, clock)
        flow = everything.seconds - reading.seconds
        print(
            f"| 1/{part} | {megabytes:.1f} | {parsed:.1f} s | {reading.seconds:.1f} s "
            f"| {reading.seconds / parsed:.1f}x | {megabytes / reading.seconds:.1f} "
            f"| {everything.seconds:.1f} s | {megabytes / everything.seconds:.1f} "
            f"| {1000 * flow / megabytes:.0f} | {1e6 * flow / (everything.calls or 1):.0f} "
            f"| {everything.size:,} | {everything.megabytes} MB |"
        )


def computed() -> float:
    """Return the CPU seconds of this process and of the children it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def parse_alone(files: list[tuple[str, bytes]], workers: int, clock: Clock) -> float:
    batches = [files[start::64] for start in range(64)]
    context = multiprocessing.get_context("spawn")
    started = clock()
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        list(pool.map(parse_batch, batches))
    return clock() - started


def parse_batch(batch: list[tuple[str, bytes]]) -> int:
    for path, content in batch:
        try:
            parser_of(language_of(path) or "").parse(content)
        except ValueError:
            print(f"{path} is not parsed in time", file=sys.stderr)
    return len(batch)


class Run(NamedTuple):
    """The cost of an analysis, measured in a process of its own."""

    seconds: float
    size: int
    calls: int
    megabytes: int  # peak, without file contents, which the caller holds


def apart(files: list[tuple[str, bytes]], want: set[str], workers: int, clock: Clock) -> Run:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(timed, files, want, workers, clock).result()


def timed(files: list[tuple[str, bytes]], want: set[str], workers: int, clock: Clock) -> Run:
    given = sum(len(content) for _, content in files)
    started = clock()
    graph = analyze(
        [SourceFile(path, partial(bytes, content)) for path, content in files],
        want,
        workers=workers,
    )
    seconds = clock() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    calls = sum(edge.kind is EdgeKind.CALLS for edge in graph.edges)
    return Run(seconds, len(graph.nodes) + len(graph.edges), calls, peak - given // 2**20)


if __name__ == "__main__":
    main()
