"""The job kind of the surface: makes the graph of an archive.

The archive is read in a sandboxed process, with limits on time and memory: a file that crashes a
parser, or that no parser finishes, ends that process and its own job only. The archive is never
unpacked to disk. Error messages are our own, since an exception may quote source text.
"""

from __future__ import annotations

import json
import logging
import os
import re
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pydantic import BaseModel

from coatcheck.archives.archive import Archive, ArchiveEntry
from coatcheck.archives.errors import ArchiveError
from coatcheck.codegraph import Graph, Skipped, SourceFile, analyze
from coatcheck.errors import CoatcheckError, Fail
from coatcheck.model.upload import Upload
from coatcheck.surfaces.graphs.constants import ARTIFACT, LARGEST_SOURCE, GraphKind
from coatcheck.surfaces.graphs.domain_names import MOST_FILES, NAME_DOMAIN, NAMING
from coatcheck.surfaces.graphs.domains import Domain, domains_of, renamed
from coatcheck.surfaces.graphs.json_writer import write_graph
from coatcheck.surfaces.graphs.settings import MEMORY, GraphSettings
from coatcheck.worker.steps.context import Context

log = logging.getLogger(__name__)

LINK = "a symbolic link: its target is in the graph under its own name"
PROGRESS_EVERY_S = 0.5
# A model names at most this many domains.
MAX_NAMED = 40
# A line of a traceback from another process.
_FRAME = re.compile(r'^  File "[^"]*?([^"/]+)", line (\d+), in ', re.MULTILINE)


class GraphRequest(BaseModel):
    """A zip of a codebase, and the kind of graph."""

    archive: Upload
    graph: GraphKind = GraphKind.ALL


class GraphMade(BaseModel):
    """The size of a graph; the graph itself is an artifact of the job."""

    artifact: str
    files: int
    nodes: int
    edges: int
    skipped: int


def graph(ctx: Context, request: GraphRequest) -> GraphMade:
    """Make the graph of a codebase."""
    ctx.phase("loading")
    path: Path = ctx.file(request.archive)
    try:
        with Archive(path) as archive:
            ctx.phase("reading")
            found = _read(archive, request.graph, ctx)
        domains = None
        if request.graph.has_domains:
            domains = _named(ctx, domains_of(found))
        with tempfile.TemporaryDirectory(prefix="coatcheck-graph-") as folder:
            return _store(ctx, Path(folder) / ARTIFACT, found, domains)
    except ArchiveError as error:
        raise Fail(error.code, str(error)) from None
    except MemoryError:
        limit = GraphSettings.read(os.environ).memory // 1_000_000
        raise Fail(
            "out-of-memory-limit",
            f"the analysis needs more than {limit:,} MB of memory; raise {MEMORY}, or leave out "
            "calls, which take most of it",
        ) from None
    except CoatcheckError:
        raise  # its message has no source text
    except Exception as error:  # noqa: BLE001 - its message may quote source text
        fields = {"error": type(error).__name__, "at": _location(error)}
        log.error("analysis failed", extra=fields)
        raise Fail("analysis-failed", f"the analysis failed ({type(error).__name__})") from None


def _read(archive: Archive, kind: GraphKind, ctx: Context) -> Graph:
    files = [SourceFile(entry.path, partial(_content, archive, entry)) for entry in archive.entries]
    found = analyze(files, kind.wants, progress=_reporter(ctx))
    found.stats.skipped += [Skipped(link, LINK) for link in archive.links]
    return found


def _content(archive: Archive, entry: ArchiveEntry) -> bytes:
    return archive.read(entry, LARGEST_SOURCE + 1)  # one byte more shows that it is larger


def _reporter(ctx: Context) -> Callable[[int, int], None]:
    """Return a function that reports progress, at most every half second."""
    last = 0.0

    def report(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if done == total or now - last >= PROGRESS_EVERY_S:
            last = now
            ctx.progress(done, total, "files")

    return report


def _named(ctx: Context, domains: list[Domain]) -> list[Domain]:
    if not ctx.service(NAMING):
        return domains
    ctx.phase("naming")

    def name_domain(paths: list[str]) -> str:
        name: bytes = ctx.service(NAME_DOMAIN, json.dumps(paths).encode())
        return name.decode()

    names = [
        ctx.step(name_domain, list(domain.files[:MOST_FILES]), key=domain.id)
        for domain in domains[:MAX_NAMED]
    ]
    return renamed(domains, [*names, *([""] * (len(domains) - len(names)))])


def _store(ctx: Context, path: Path, found: Graph, domains: list[Domain] | None) -> GraphMade:
    ctx.phase("writing")
    with path.open("wb") as file:
        write_graph(found, domains, file)
    ctx.artifact(ARTIFACT, path, "application/json")
    stats = found.stats
    return GraphMade(
        artifact=ARTIFACT,
        files=stats.files,
        nodes=len(found.nodes),
        edges=len(found.edges),
        skipped=len(stats.skipped),
    )


def _location(error: BaseException) -> str:
    """Return the file and line that raised an error, here or in a reader process."""
    remote = _FRAME.findall(str(error.__cause__ or ""))
    if remote:
        return ":".join(remote[-1])
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (
        "" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    )
