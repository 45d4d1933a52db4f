"""The whole way: files in, a graph out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Any

from coatcheck.codegraph.collector import without_collecting
from coatcheck.codegraph.disk.column import LARGEST, Disk
from coatcheck.codegraph.disk.shelf import Shelf
from coatcheck.codegraph.graph import (
    Graph,
    GraphBuilder,
    NodeKind,
    Skipped,
    Want,
)
from coatcheck.codegraph.javascript.linker import (
    JavaScriptArchive,
    JavaScriptLinker,
)
from coatcheck.codegraph.languages import language_of
from coatcheck.codegraph.packages.go_packages import by_folder, go_modules
from coatcheck.codegraph.packages.linker import (
    GoLinker,
    JavaLinker,
    PackageArchive,
)
from coatcheck.codegraph.python.archive import SourceArchive
from coatcheck.codegraph.python.graph_output import draw
from coatcheck.codegraph.python.linker import Linker
from coatcheck.codegraph.python.summary import Packed, Shelved
from coatcheck.codegraph.source import SourceFile, vendored_folder
from coatcheck.codegraph.summarizer import summarise_all
from coatcheck.codegraph.tagged.grammar import GRAMMARS
from coatcheck.codegraph.tagged.graph_output import TaggedDrawing
from coatcheck.codegraph.tagged.summary import TaggedSummary

Progress = Callable[[int, int], None]


def analyse(
    files: Iterable[SourceFile],
    want: AbstractSet[str],
    *,
    progress: Progress | None = None,
    workers: int | None = None,
    largest: int = LARGEST,
) -> Graph:
    """Return the graph of some files.

    `want` is any of "call", "dependency" and "parse". `progress` is told how many files of how many
    have been read. `workers` is the number of processes that read them; None: one for each core.
    What is known of the code may take up `largest` bytes of the disk.
    """
    wanted = frozenset(Want(one) for one in want)
    with without_collecting():
        return _analyse(files, wanted, progress, workers, largest)


def _analyse(
    files: Iterable[SourceFile],
    wanted: frozenset[Want],
    progress: Progress | None,
    workers: int | None,
    largest: int,
) -> Graph:
    started = time.monotonic()
    disk = Disk(largest)
    builder, shelf = GraphBuilder(disk), Shelf(disk)
    stats = builder.graph.stats
    ours, others, vendored, manifests = _sort(files)
    stats.skipped.extend(
        Skipped(folder, f"not the project's own: {count} file{'s' if count > 1 else ''}")
        for folder, count in sorted(vendored.items())
    )
    by_language: dict[str, dict[str, Any]] = {}
    files_at: dict[str, int] = {}
    with_calls = Want.CALL in wanted
    for done, read in enumerate(summarise_all(ours, workers, with_calls=with_calls), 1):
        if read.reason is not None:
            stats.skipped.append(Skipped(read.path, read.reason))
        if read.summary is not None:
            by_language.setdefault(read.language, {})[read.path] = _shelved(read.summary, shelf)
            files_at[read.path] = builder.add(
                NodeKind.FILE,
                read.path,
                name=read.path.rpartition("/")[2],
                file=read.path,
                language=read.language,
            )
        if progress is not None:
            progress(done, len(ours))
    stats.languages = {name: len(found) for name, found in sorted(by_language.items())}
    stats.files = sum(stats.languages.values())
    if "python" in by_language:
        linker = Linker(SourceArchive(by_language["python"], others), disk)
        draw(linker, files_at, wanted, builder)
    script = {
        path: summary
        for name in ("javascript", "typescript", "tsx")
        for path, summary in by_language.get(name, {}).items()
    }
    if script:
        draw(JavaScriptLinker(JavaScriptArchive(script, set()), disk), files_at, wanted, builder)
    if "java" in by_language:
        draw(JavaLinker(PackageArchive(by_language["java"]), disk), files_at, wanted, builder)
    if "go" in by_language:
        modules = go_modules(manifests)
        archive = PackageArchive(by_language["go"], by_folder)
        draw(GoLinker(archive, disk, modules), files_at, wanted, builder)
    for name in sorted(by_language.keys() & GRAMMARS.keys()):
        TaggedDrawing(name, by_language[name], files_at).draw(wanted, builder)
    graph = builder.finish()
    stats.ms = round((time.monotonic() - started) * 1000)
    return graph


def _shelved(summary: Packed | TaggedSummary, shelf: Shelf) -> Shelved | TaggedSummary:
    if isinstance(summary, TaggedSummary):
        summary.put_by(shelf)
        return summary
    return Shelved(shelf, summary)


def _sort(
    files: Iterable[SourceFile],
) -> tuple[list[SourceFile], set[str], Counter[str], dict[str, bytes]]:
    """Tell apart what is read, what is only there, and whole folders that are left out."""
    ours: list[SourceFile] = []
    others: set[str] = set()
    vendored: Counter[str] = Counter()
    manifests: dict[str, bytes] = {}
    for file in files:
        folder = vendored_folder(file.path)
        if folder is not None:
            vendored[folder] += 1
        elif language_of(file.path) is not None:
            ours.append(file)
        else:
            others.add(file.path)
            if file.path.rpartition("/")[2] == "go.mod":
                manifests[file.path] = file.read()
    ours.sort(key=lambda file: file.path)
    return ours, others, vendored, manifests
