"""`coatcheck kinds`: the declared kinds."""

from __future__ import annotations

from typing import Any

import click

from coatcheck.cli.api import Api
from coatcheck.cli.options import JSON_OPTION, SERVER_OPTIONS, options
from coatcheck.cli.output.tables import TableColumn, print_table
from coatcheck.cli.output.terminal import print_json
from coatcheck.cli.output.time_format import short


@click.command()
@options(JSON_OPTION, *SERVER_OPTIONS)
def kinds(as_json: bool, url: str, api_key: str | None) -> None:
    """List the kinds of jobs on the server, with their input types.

    \b
    Examples:
        coatcheck kinds
        coatcheck kinds --json | jq '.kinds[] | select(.name == "report") | .input_schema'
    """
    with Api(url, api_key) as api:
        found = api.kinds()
    if as_json:
        print_json({"kinds": found})
        return
    print_table(
        (
            TableColumn("KIND"),
            TableColumn("QUEUE", 2),
            TableColumn("ATTEMPTS", 4),
            TableColumn("TIMEOUT", 3),
            TableColumn("INPUT", 1),
        ),
        [
            (
                kind["name"],
                kind["queue"],
                kind["max_attempts"],
                short(kind["timeout_s"] * 1000),
                describe(kind["input_schema"]),
            )
            for kind in found
        ],
    )


def describe(schema: dict[str, Any]) -> str:
    """Summarize a schema: its type, or the names of its members."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return describe(schema.get("$defs", {}).get(name, {"type": name}))
    if "properties" in schema:
        required = schema.get("required", [])
        names = [name if name in required else f"{name}?" for name in schema["properties"]]
        return f"{{{', '.join(names)}}}"
    if "anyOf" in schema:
        return " or ".join(describe(part) for part in schema["anyOf"])
    if schema.get("type") == "array":
        return f"[{describe(schema.get('items', {}))}]"
    found = schema.get("type", "anything")
    return " or ".join(found) if isinstance(found, list) else str(found)
