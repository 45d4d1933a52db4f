"""`coatcheck queues`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource

from coatcheck.cli.api import Api
from coatcheck.cli.moments import age
from coatcheck.cli.options import JSON_OPTION, SERVER_OPTIONS, complete_queues, options
from coatcheck.cli.tables import Column, print_table
from coatcheck.cli.terminal import out, plain, print_json

COLUMNS = (
    Column("QUEUE"),
    Column("READY"),
    Column("RUNNING", 1),
    Column("DELAYED", 3),
    Column("OLDEST", 2),
    Column("PAUSED"),
)

one_queue = click.argument("name", metavar="NAME", shell_complete=complete_queues)


@click.group(invoke_without_command=True)
@options(JSON_OPTION, *SERVER_OPTIONS)
@click.pass_context
def queues(ctx: click.Context, /, **given: Any) -> None:
    """List the queues, pause one, let it go on.

    \b
    Examples:
        coatcheck queues
        coatcheck queues pause reports
        coatcheck queues resume reports
    """
    if ctx.invoked_subcommand is None:
        _list(**given)
        return
    for name in given:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"put options behind {ctx.invoked_subcommand!r}")


@queues.command("list")
@options(JSON_OPTION, *SERVER_OPTIONS)
def list_queues(**given: Any) -> None:
    """List the queues and how deep they are.

    READY jobs could start now, OLDEST says how long the first of them has waited.

    \b
    Examples:
        coatcheck queues list
        coatcheck queues list --json | jq '.queues[] | select(.paused) | .name'
    """
    _list(**given)


@queues.command()
@one_queue
@options(JSON_OPTION, *SERVER_OPTIONS)
def pause(name: str, **given: Any) -> None:
    """Start no more jobs of a queue; what runs goes on.

    \b
    Examples:
        coatcheck queues pause reports
    """
    _set_paused(name, paused=True, **given)


@queues.command()
@one_queue
@options(JSON_OPTION, *SERVER_OPTIONS)
def resume(name: str, **given: Any) -> None:
    """Start jobs of a paused queue again.

    \b
    Examples:
        coatcheck queues resume reports
    """
    _set_paused(name, paused=False, **given)


def _list(*, as_json: bool, url: str, api_key: str | None) -> None:
    with Api(url, api_key) as api:
        answer = api.queues()
    if as_json:
        print_json(answer)
    else:
        print_table(COLUMNS, [_row(queue) for queue in answer["queues"]])


def _set_paused(name: str, *, paused: bool, as_json: bool, url: str, api_key: str | None) -> None:
    with Api(url, api_key) as api:
        queue = api.set_paused(name, paused=paused)
    if as_json:
        print_json(queue)
        return
    stands = "is paused" if queue["paused"] else "goes on"
    out().print(
        f"queue {plain(queue['name'])} {stands}: {queue['ready']} ready, "
        f"{queue['running']} running, {queue['delayed']} delayed",
        soft_wrap=True,
    )


def _row(queue: dict[str, Any]) -> Sequence[object]:
    return (
        queue["name"],
        queue["ready"],
        queue["running"],
        queue["delayed"],
        age(queue["oldest_ready_at"]),
        "paused" if queue["paused"] else "",
    )
