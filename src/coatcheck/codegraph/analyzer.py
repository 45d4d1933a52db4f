"""The entry point: source files in, a graph out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Any

from coatcheck.codegraph.graph import Graph, GraphBuilder, NodeKind, Skipped, Want
from coatcheck.codegraph.javascript.linker import JavaScriptArchive, JavaScriptLinker
from coatcheck.codegraph.languages import language_of
from coatcheck.codegraph.packages.linker import (
    GoLinker,
    JavaLinker,
    PackageArchive,
    go_modules,
    go_package,
)
from coatcheck.codegraph.points_to.archive import SourceArchive
from coatcheck.codegraph.points_to.graph_writer import write_graph
from coatcheck.codegraph.points_to.linker import Linker
from coatcheck.codegraph.source import SourceFile, vendored_folder
from coatcheck.codegraph.summarizer import gc_disabled, summarize_files
from coatcheck.codegraph.tagged.grammar import GRAMMARS
from coatcheck.codegraph.tagged.graph_writer import TaggedGraphWriter

Progress = Callable[[int, int], None]


def analyze(
    files: Iterable[SourceFile],
    want: AbstractSet[str],
    *,
    progress: Progress | None = None,
    workers: int | None = None,
) -> Graph:
    """Return the graph of source files.

    `want` is any of "call", "dependency" and "parse". `progress` is called with the number of files
    read and the number of all files. `workers` is the number of processes that read files; None is
    one for each core.
    """
    wanted = frozenset(Want(one) for one in want)
    with gc_disabled():
        return _analyze(files, wanted, progress, workers)


def _analyze(
    files: Iterable[SourceFile],
    want: frozenset[Want],
    progress: Progress | None,
    workers: int | None,
) -> Graph:
    started = time.monotonic()
    builder = GraphBuilder()
    stats = builder.graph.stats
    sources, others, vendored, manifests = _partition(files)
    stats.skipped.extend(
        Skipped(folder, f"not the project's own: {count} file{'s' if count > 1 else ''}")
        for folder, count in sorted(vendored.items())
    )
    by_language: dict[str, dict[str, Any]] = {}
    nodes: dict[str, int] = {}
    with_calls = Want.CALL in want
    for done, read in enumerate(summarize_files(sources, workers, with_calls=with_calls), 1):
        if read.reason is not None:
            stats.skipped.append(Skipped(read.path, read.reason))
        if read.summary is not None:
            by_language.setdefault(read.language, {})[read.path] = read.summary
            nodes[read.path] = builder.add(
                NodeKind.FILE,
                read.path,
                name=read.path.rpartition("/")[2],
                file=read.path,
                language=read.language,
            )
        if progress is not None:
            progress(done, len(sources))
    stats.languages = {name: len(found) for name, found in sorted(by_language.items())}
    stats.files = sum(stats.languages.values())
    for linker in _linkers(by_language, others, manifests):
        write_graph(linker, nodes, want, builder)
    for name in sorted(by_language.keys() & GRAMMARS.keys()):
        TaggedGraphWriter(name, by_language[name], nodes).write(want, builder)
    graph = builder.finish()
    stats.ms = round((time.monotonic() - started) * 1000)
    return graph


def _linkers(
    by_language: dict[str, dict[str, Any]], others: set[str], manifests: dict[str, bytes]
) -> Iterable[Linker]:
    """Yield a linker for each language with points-to analysis, one after the other."""
    if "python" in by_language:
        yield Linker(SourceArchive(by_language["python"], others))
    scripts = {
        path: summary
        for name in ("javascript", "typescript", "tsx")
        for path, summary in by_language.get(name, {}).items()
    }
    if scripts:
        yield JavaScriptLinker(JavaScriptArchive(scripts))
    if "java" in by_language:
        yield JavaLinker(PackageArchive(by_language["java"]))
    if "go" in by_language:
        yield GoLinker(PackageArchive(by_language["go"], go_package), go_modules(manifests))


def _partition(
    files: Iterable[SourceFile],
) -> tuple[list[SourceFile], set[str], Counter[str], dict[str, bytes]]:
    """Return the sources, other paths, vendored folders with their counts, and go.mod files."""
    sources: list[SourceFile] = []
    others: set[str] = set()
    vendored: Counter[str] = Counter()
    manifests: dict[str, bytes] = {}
    for file in files:
        folder = vendored_folder(file.path)
        if folder is not None:
            vendored[folder] += 1
        elif language_of(file.path) is not None:
            sources.append(file)
        else:
            others.add(file.path)
            if file.path.rpartition("/")[2] == "go.mod":
                manifests[file.path] = file.read()
    sources.sort(key=lambda file: file.path)
    return sources, others, vendored, manifests
