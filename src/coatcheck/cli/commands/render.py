"""`coatcheck render`: render a diagram."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from coatcheck.cli import exit_codes
from coatcheck.cli.api import Api
from coatcheck.cli.commands.watch import TIMEOUT_OPTION, follow, print_outcome
from coatcheck.cli.options import SERVER_OPTIONS, options
from coatcheck.cli.output.terminal import complain, say
from coatcheck.client.client import Client

FORMATS = {".mmd": "mermaid", ".mermaid": "mermaid", ".d2": "d2"}
OUTPUTS = ("svg", "png")


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(allow_dash=True, dir_okay=False))
@click.option("-o", "--output", metavar="FILE", help="The output file, .svg or .png (FILE.svg).")
@click.option(
    "--format",
    "format_",
    type=click.Choice(sorted(set(FORMATS.values()))),
    help="The source language; by default from the name of FILE.",
)
@options(TIMEOUT_OPTION, *SERVER_OPTIONS)
def render(
    file: str,
    output: str | None,
    format_: str | None,
    timeout: float | None,
    url: str,
    api_key: str | None,
) -> None:
    """Render the Mermaid or D2 diagram in FILE as SVG or PNG.

    FILE can be - for stdin; -o - writes the image to stdout. Needs a server with the render
    surface: `coatcheck serve` without an app.

    \b
    Examples:
        coatcheck render flow.mmd
        coatcheck render plan.d2 -o plan.png
        echo 'graph LR; a-->b' | coatcheck render - --format mermaid -o - > ab.svg
    """
    source = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    picture = output or ("-" if file == "-" else f"{Path(file).with_suffix('.svg')}")
    diagram = {
        "source": source,
        "format": format_ or _format_of(file),
        "output": _kind_of(picture),
    }
    with Api(url, api_key) as api:
        job = follow(api, api.submit("render", diagram).id, timeout)
        if job["state"] != "succeeded":
            sys.exit(_report_failure(job, file))
    with Client(url, api_key) as client:
        name = job["result"]["artifact"]
        if picture == "-":
            sys.stdout.buffer.write(client.artifact(job["id"], name))
        else:
            client.download(job["id"], name, picture)
            say(f"{picture}  ({job['result']['size']:,} bytes)")


def _report_failure(job: dict[str, Any], file: str) -> int:
    if job["state"] == "failed" and job["error"]["code"] == "bad-source":
        complain(f"{file}: {job['error']['message']}")  # several lines that show the position
        return exit_codes.FAILED
    if job["finished_at"] is None:
        complain(f"job {job['id']} is still {job['state']}; it continues")
        return exit_codes.TIMED_OUT
    return print_outcome(job, raw=False)


def _format_of(file: str) -> str:
    found = FORMATS.get(Path(file).suffix.lower())
    if found is None:
        known = ", ".join(FORMATS)
        raise click.UsageError(
            f"the source language is unknown; use --format or a file name with {known}"
        )
    return found


def _kind_of(picture: str) -> str:
    if picture == "-":
        return "svg"
    found = Path(picture).suffix.lower().removeprefix(".")
    if found not in OUTPUTS:
        raise click.UsageError(f"the output must be .svg or .png, not {picture}")
    return found
