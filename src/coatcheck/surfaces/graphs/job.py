"""The kind of job behind the surface: an archive, and the graph of what is in it.

Whatever is in the archive is read in a confined process, with limits on time and memory: a file
that finds a hole in a parser, or that no parser gets through, ends that process and its own job.
Nothing of it is unpacked. What goes wrong is told in words of ours alone, since an exception may
quote the text it stumbled over.
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
from coatcheck.codegraph import Graph, NoRoomError, Skipped, SourceFile, analyse
from coatcheck.errors import CoatcheckError, Fail
from coatcheck.model.upload import Upload
from coatcheck.surfaces.graphs.constants import ARTIFACT, LARGEST_SOURCE, GraphKind
from coatcheck.surfaces.graphs.domain_names import MOST_FILES, NAME_DOMAIN, NAMING
from coatcheck.surfaces.graphs.domains import Domain, domains_of, renamed
from coatcheck.surfaces.graphs.json_writer import write_graph
from coatcheck.surfaces.graphs.settings import DISK, GraphSettings
from coatcheck.worker.steps.context import Context

log = logging.getLogger(__name__)

LINK = "a symbolic link: what it leads to is in the graph by its own name"
TELL_EVERY_S = 0.5
# Only so many domains are worth a question to somebody else.
MOST_NAMED = 40
# A line of a traceback that came from another process as text.
_FRAME = re.compile(r'^  File "[^"]*?([^"/]+)", line (\d+), in ', re.MULTILINE)


class GraphRequest(BaseModel):
    """A zip of a codebase, and what is to be known of it."""

    archive: Upload
    graph: GraphKind = GraphKind.ALL


class GraphMade(BaseModel):
    """How much was found; the graph itself is an artifact of the job."""

    artifact: str
    files: int
    nodes: int
    edges: int
    skipped: int


def graph(ctx: Context, asked: GraphRequest) -> GraphMade:
    """Make the graph of a codebase."""
    ctx.phase("loading")
    path: Path = ctx.file(asked.archive)
    try:
        with Archive(path) as archive:
            ctx.phase("reading")
            found = _read(archive, asked.graph, ctx)
        domains = None
        if asked.graph.has_domains:
            domains = _named(ctx, domains_of(found))
        with tempfile.TemporaryDirectory(prefix="coatcheck-graph-") as folder:
            return _keep(ctx, Path(folder) / ARTIFACT, found, domains)
    except ArchiveError as error:
        raise Fail(error.code, str(error)) from None
    except NoRoomError as error:
        raise Fail("out-of-disk", f"{error} ({DISK})") from None
    except (CoatcheckError, MemoryError):
        raise  # nobody's text is in these
    except Exception as error:  # noqa: BLE001 - whatever it is, its words stay here
        # Where, and what it was, but not what it said.
        log.error("an analysis failed", extra={"why": type(error).__name__, "at": _place(error)})
        raise Fail("analysis-failed", f"the analysis failed ({type(error).__name__})") from None


def _read(archive: Archive, kind: GraphKind, ctx: Context) -> Graph:
    files = [SourceFile(entry.path, partial(_content, archive, entry)) for entry in archive.entries]
    largest = GraphSettings.read(os.environ).disk
    found = analyse(files, kind.wants, progress=_telling(ctx), largest=largest)
    found.stats.skipped += [Skipped(link, LINK) for link in archive.links]
    return found


def _content(archive: Archive, entry: ArchiveEntry) -> bytes:
    return archive.read(entry, LARGEST_SOURCE + 1)  # the byte more tells that it is larger


def _telling(ctx: Context) -> Callable[[int, int], None]:
    """Return what tells of files as they are read: not of each, which nobody could follow."""
    last = 0.0

    def tell(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if done == total or now - last >= TELL_EVERY_S:
            last = now
            ctx.progress(done, total, "files")

    return tell


def _named(ctx: Context, domains: list[Domain]) -> list[Domain]:
    if not ctx.service(NAMING):
        return domains
    ctx.phase("naming")

    def name_domain(paths: list[str]) -> str:
        said: bytes = ctx.service(NAME_DOMAIN, json.dumps(paths).encode())
        return said.decode()

    names = [
        ctx.step(name_domain, list(domain.files[:MOST_FILES]), key=domain.id)
        for domain in domains[:MOST_NAMED]
    ]
    return renamed(domains, [*names, *([""] * (len(domains) - len(names)))])


def _keep(ctx: Context, path: Path, found: Graph, domains: list[Domain] | None) -> GraphMade:
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


def _place(error: BaseException) -> str:
    """Return where in our own code something went wrong, here or in a process that reads."""
    elsewhere = _FRAME.findall(str(error.__cause__ or ""))
    if elsewhere:
        return ":".join(elsewhere[-1])
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (
        "" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    )
