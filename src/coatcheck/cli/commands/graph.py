"""`coatcheck graph`: make a graph of the code in a folder."""

from __future__ import annotations

import json
import sys
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from coatcheck.cli import exit_codes
from coatcheck.cli.api import Api
from coatcheck.cli.commands.watch import TIMEOUT_OPTION, follow, print_outcome
from coatcheck.cli.options import SERVER_OPTIONS, options
from coatcheck.cli.output.terminal import complain, plain, say
from coatcheck.client.client import Client

KINDS = ("call", "dependency", "parse", "domain", "all")
FORMATS = {".json": "json", ".dot": "dot", ".gv": "dot", ".svg": "svg"}
MOST_SHOWN = 10


@click.command()
@click.argument(
    "folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--kind", type=click.Choice(KINDS), default="all", help="The type of graph (all).")
@click.option(
    "--format",
    "format_",
    type=click.Choice(sorted(set(FORMATS.values()))),
    help="The graph as JSON, or its modules as Graphviz or SVG; by default from the output's name.",
)
@click.option("-o", "--output", metavar="FILE", help="The output file (graph.json); - is stdout.")
@options(TIMEOUT_OPTION, *SERVER_OPTIONS)
def graph(
    folder: Path,
    kind: str,
    format_: str | None,
    output: str | None,
    timeout: float | None,
    url: str,
    api_key: str | None,
) -> None:
    """Make a graph of the code in DIR: calls, imports, definitions and inheritance.

    Sends the files that git does not ignore to a server with the graphs surface (`coatcheck serve`
    without an app), which deletes them afterwards. Then lists the most called functions and the
    import cycles.

    \b
    Examples:
        coatcheck graph src
        coatcheck graph . -o modules.svg
        coatcheck graph . --kind call -o - | jq '.stats'
    """
    format_ = format_ or _format_of(output)
    target = output or f"graph.{format_}"
    with Api(url, api_key) as api, Client(url, api_key) as client:
        job = _run_job(api, folder, kind, timeout, api_key)
        found = json.loads(client.artifact(job["id"], job["result"]["artifact"]))
    _write(found, format_, target)
    _summarize(found, sys.stdout.write if target != "-" else sys.stderr.write)


def _run_job(
    api: Api, folder: Path, kind: str, timeout: float | None, api_key: str | None
) -> dict[str, Any]:
    """Send a folder, and return its job once it has succeeded."""
    from coatcheck.cli.files.pack import pack  # noqa: PLC0415 - slow, and not needed for wrong options
    from coatcheck.surfaces.graphs.client import GraphClient  # noqa: PLC0415

    if not any(known["name"] == "graph" for known in api.kinds()):
        complain(f"the server at {api.shown_url} has no graphs surface; serve it without an app")
        sys.exit(exit_codes.FAILED)
    with tempfile.TemporaryDirectory(prefix="coatcheck-graph-") as scratch:
        path = Path(scratch) / "code.zip"
        with path.open("wb") as file:
            packed = pack(folder, file)
        if not packed.files:
            complain(f"{folder} has no files to make a graph of")
            sys.exit(exit_codes.USAGE)
        skipped = ", ".join(f"{count:,} {why}" for why, count in packed.skipped.most_common())
        say(
            f"{packed.files:,} files, {packed.bytes:,} bytes"
            + (f" (skipped: {skipped})" if skipped else "")
        )
        # The surface deletes an upload of its own after an hour, even if this command dies.
        with GraphClient(api.url, api_key) as graphs:
            job_id = graphs.submit(path, kind, f"cli-{uuid.uuid4()}")
    job = follow(api, job_id, timeout)
    if job["finished_at"] is None:
        complain(f"job {job['id']} is still {job['state']}; it continues")
        sys.exit(exit_codes.TIMED_OUT)
    if job["state"] != "succeeded":
        sys.exit(print_outcome(job, raw=False))
    return job


def _write(found: dict[str, Any], format_: str, target: str) -> None:
    if format_ == "json":
        content = json.dumps(found, ensure_ascii=False, indent=1).encode("utf-8", "replace")
    else:
        content = _draw(found, format_)
    if target == "-":
        sys.stdout.buffer.write(content + b"\n")
        sys.stdout.buffer.flush()
        return
    try:
        Path(target).write_bytes(content)
    except OSError as error:
        complain(f"cannot write {target}: {error.strerror}")
        sys.exit(exit_codes.FAILED)
    say(f"{target}  ({len(content):,} bytes)")


def _draw(found: dict[str, Any], format_: str) -> bytes:
    from coatcheck.surfaces.graphs.diagrams import (  # noqa: PLC0415
        MOST_EDGES,
        MOST_MODULES,
        as_dot,
        as_mermaid,
    )
    from coatcheck.surfaces.graphs.module_graph import module_graph  # noqa: PLC0415

    modules = module_graph(found["nodes"], found["edges"])
    if format_ == "dot":
        return as_dot(modules).encode()
    if len(modules.files) > MOST_MODULES or len(modules.uses) > MOST_EDGES:
        complain(
            f"{len(modules.files):,} modules with {len(modules.uses):,} edges are too many for an "
            f"image ({MOST_MODULES} and {MOST_EDGES} at most); use --format dot, or a subfolder"
        )
        sys.exit(exit_codes.FAILED)
    from coatcheck.surfaces.render.drawing import (  # noqa: PLC0415 - an optional extra
        DrawingError,
        EngineMissing,
        Format,
        Output,
        draw,
    )

    try:
        return draw(as_mermaid(modules), Format.MERMAID, Output.SVG).content
    except (DrawingError, EngineMissing) as error:
        complain(f"the image cannot be rendered: {error}")
        sys.exit(exit_codes.FAILED)


def _summarize(found: dict[str, Any], write: Callable[[str], object]) -> None:
    from coatcheck.surfaces.graphs.module_graph import (  # noqa: PLC0415
        import_cycles,
        module_graph,
        most_called,
    )

    nodes, edges, stats = found["nodes"], found["edges"], found["stats"]
    languages = ", ".join(f"{count:,} {name}" for name, count in stats["languages"].items())
    write(f"{len(nodes):,} nodes and {len(edges):,} edges from {languages or 'no'} files\n")
    called = most_called(nodes, edges, MOST_SHOWN)
    if called:
        write("\nMost called:\n")
        for name, count in called:
            write(f"  {count:>5}  {plain(name)}\n")
    modules = module_graph(nodes, edges, frozenset({"imports"}))
    cycles = import_cycles(modules)
    if cycles:
        write("\nImport cycles:\n")
        for cycle in cycles[:MOST_SHOWN]:
            shown = ", ".join(plain(modules.names[file]) for file in cycle[:MOST_SHOWN])
            more = f" and {len(cycle) - MOST_SHOWN} more" if len(cycle) > MOST_SHOWN else ""
            write(f"  {shown}{more}\n")
        if len(cycles) > MOST_SHOWN:
            write(f"  and {len(cycles) - MOST_SHOWN} more cycles\n")
    if found.get("domains"):
        write("\nDomains:\n")
        for domain in found["domains"][:MOST_SHOWN]:
            write(f"  {len(domain['files']):>5}  {plain(domain['name'])}\n")


def _format_of(output: str | None) -> str:
    if output is None or output == "-":
        return "json"
    found = FORMATS.get(Path(output).suffix.lower())
    if found is None:
        known = ", ".join(FORMATS)
        raise click.UsageError(
            f"the format of {output} is unknown; use --format or a file name with {known}"
        )
    return found
