"""`coatcheck search`: search a collection of documents."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import click

from coatcheck.cli import exit_codes
from coatcheck.cli.api import Api, Json
from coatcheck.cli.options import JSON_OPTION, SERVER_OPTIONS, label_pairs, options
from coatcheck.cli.output.terminal import complain, out, plain, print_json

MODES = ("hybrid", "text", "vector")
LONGEST_SHOWN = 600


@click.command()
@click.argument("text", metavar="TEXT")
@click.option(
    "--collection", default="default", metavar="NAME", help="The collection to search (default)."
)
@click.option(
    "-k", "most", type=click.IntRange(1, 100), default=5, help="The number of passages (5)."
)
@click.option(
    "--filter",
    "filters_",
    multiple=True,
    metavar="NAME=VALUE",
    help="Only documents with this metadata; repeatable.",
)
@click.option(
    "--mode",
    type=click.Choice(MODES),
    default="hybrid",
    help="Full-text search, vector search, or both (hybrid).",
)
@options(JSON_OPTION, *SERVER_OPTIONS)
def search(
    text: str,
    collection: str,
    most: int,
    filters_: Sequence[str],
    mode: str,
    as_json: bool,
    url: str,
    api_key: str | None,
) -> None:
    """Find the passages of a collection that match TEXT, best first.

    The exit code is 1 if there is no match.

    \b
    Examples:
        coatcheck search "how long are results kept" --collection docs
        coatcheck search "invoice 4711" --mode text --filter year=2026 --json
    """
    filters = (("filter", f"{name}:{value}") for name, value in label_pairs(filters_))
    query = (("q", text), ("k", str(most)), ("mode", mode), *filters)
    with Api(url, api_key) as api:
        path = f"/v1/collections/{quote(collection, safe='')}/search"
        found: list[Json] = api.read(path, "results", query=query)["results"]
    if as_json:
        print_json(found)
    else:
        for number, passage in enumerate(found, 1):
            _show(number, passage)
    if not found:
        complain("no passage was found")
        sys.exit(exit_codes.FAILED)


def _show(number: int, passage: dict[str, Any]) -> None:
    console = out()
    page = "" if passage["page"] is None else f", page {passage['page']}"
    below = " > ".join(passage["headings"])
    title = f"{number}. {passage['document']['name']}{page}" + (f"  {below}" if below else "")
    console.print(plain(title), style="bold", soft_wrap=True)
    text = passage["text"].strip()
    if len(text) > LONGEST_SHOWN:
        text = text[:LONGEST_SHOWN].rstrip() + " ..."
    for line in text.splitlines():
        console.print(f"   {plain(line)}", soft_wrap=True)
    console.print("")
