"""Code graphs: the peak memory of the analysis, and how it grows.

    python -m benchmarks.graph_memory FOLDER    parts of a tree; then a part with much beside it

The first table has a quarter, a half and the whole of a tree, with and without calls, beside the
size of the graph itself as objects and as JSON. The second table has one part of the tree among
files that add little or nothing to the graph: data and dependencies, which are not read; minified
code, which is read and skipped; and comments. Each row has the peak of the process that links, the
peak of its private memory (the rest are file pages, which the kernel reclaims on demand), and the
peak of the largest process that reads. No process gets a file before it reads it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple, Self

from coatcheck.codegraph import Graph, SourceFile, analyze
from coatcheck.codegraph.languages import language_of

MB = 1_000_000
FILE_BYTES = 250_000
WITHOUT_CALLS = {"dependency", "parse"}
ALL = {*WITHOUT_CALLS, "call"}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--parts", nargs="+", type=int, default=[4, 2, 1])
    options.add_argument("--beside", nargs="+", type=int, default=[0, 100, 400], metavar="MB")
    chosen = options.parse_args()
    files = tree(chosen.folder)
    print(f"{chosen.folder.name} on {chosen.workers} processes, load {os.getloadavg()[0]:.1f}")
    sizes = "| nodes and edges | the graph | as JSON | links | private | reads |"
    print(f"| of the tree | calls {sizes}\n|{8 * '---|'}")
    for part in chosen.parts:
        for want in (WITHOUT_CALLS, ALL):
            taken = apart(files[::part], want, chosen.workers)
            calls = "with" if "call" in want else "without"
            print(f"| 1/{part} | {calls} {taken.row()}")
    print(f"\n| beside it {sizes}\n|{7 * '---|'}")
    for megabytes in chosen.beside:
        among = [*files[:: max(chosen.parts)], *padding(megabytes * MB)]
        print(f"| {megabytes} MB {apart(among, ALL, chosen.workers).row()}")


def tree(folder: Path) -> list[SourceFile]:
    return [
        SourceFile(path.relative_to(folder).as_posix(), partial(Path.read_bytes, path))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and language_of(path.name)
    ]


def padding(size: int) -> list[SourceFile]:
    """Return files of four sorts, a quarter of the total size each."""
    sorts = {
        "data/{}.csv": b"1,2,3\n",
        "node_modules/{}/index.js": b"module.exports = () => 1;\n",
        "assets/{}.js": b"a(b);" * 2_000,
        "comments/m{}.py": b"# Nothing is said here.\n",
    }
    count = size // len(sorts) // FILE_BYTES
    return [
        SourceFile(path.format(number), partial(repeated, line, FILE_BYTES))
        for path, line in sorts.items()
        for number in range(count)
    ]


def repeated(line: bytes, size: int) -> bytes:
    return line * (size // len(line))


class Taken(NamedTuple):
    """The peak memory of the processes and the size of the output, in bytes."""

    size: int
    graph: int
    json: int
    links: int
    private: int
    reads: int

    def row(self) -> str:
        sizes = (self.graph, self.json, self.links, self.private, self.reads)
        return f"| {self.size:,} | " + " | ".join(f"{one / MB:.0f} MB" for one in sizes) + " |"


def apart(files: list[SourceFile], want: set[str], workers: int) -> Taken:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(measured, files, want, workers).result()


def measured(files: list[SourceFile], want: set[str], workers: int) -> Taken:
    with Watching() as private:
        graph = analyze(files, want, workers=workers)
    links = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reads = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    written = len(json.dumps(graph.as_json()))
    size = len(graph.nodes) + len(graph.edges)
    return Taken(size, held(graph), written, links, private.most, reads)


class Watching(Thread):
    """A thread that samples the private memory of this process fifty times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = 0
        self._over = Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        status = Path("/proc/self/status")
        while not self._over.wait(0.02):
            lines = status.read_text().splitlines()
            (line,) = (line for line in lines if line.startswith("RssAnon:"))
            self.most = max(self.most, 1024 * int(line.split()[1]))


def held(graph: Graph) -> int:
    """Return the size of a graph as objects, with each string and number counted once."""
    seen: dict[int, int] = {}
    objects: Iterable[Any] = (*graph.nodes, *graph.edges)
    for one in objects:
        seen[id(one)] = sys.getsizeof(one)
        for name in one.__slots__:
            value = getattr(one, name)
            seen[id(value)] = sys.getsizeof(value)
    return sum(seen.values())


if __name__ == "__main__":
    main()
