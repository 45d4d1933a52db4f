"""`coatcheck queues`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from coatcheck.cli.api import Api
from coatcheck.cli.options import (
    JSON_OPTION,
    SERVER_OPTIONS,
    complete_queues,
    list_or_go_on,
    options,
)
from coatcheck.cli.output.tables import TableColumn, print_table
from coatcheck.cli.output.terminal import out, plain, print_json
from coatcheck.cli.output.time_format import age

COLUMNS = (
    TableColumn("QUEUE"),
    TableColumn("READY"),
    TableColumn("RUNNING", 1),
    TableColumn("LIMIT", 3),
    TableColumn("DELAYED", 3),
    TableColumn("OLDEST", 2),
    TableColumn("PAUSED"),
)


class _Limit(click.ParamType[int | None]):
    """A number from 1 on, or `none`."""

    name = "limit"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | None:
        """Read it."""
        if value == "none":
            return None
        if not str(value).isdecimal() or int(value) < 1:
            self.fail(f"{value!r} is neither a number from 1 on nor `none`", param, ctx)
        return int(value)


one_queue = click.argument("name", metavar="NAME", shell_complete=complete_queues)


@click.group(invoke_without_command=True)
@options(JSON_OPTION, *SERVER_OPTIONS)
@click.pass_context
def queues(ctx: click.Context, /, **given: Any) -> None:
    """List the queues, pause one, let it go on, limit it.

    \b
    Examples:
        coatcheck queues
        coatcheck queues pause reports
        coatcheck queues resume reports
        coatcheck queues limit gpu 1
    """
    list_or_go_on(ctx, given, _list)


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


@queues.command()
@one_queue
@click.argument("concurrency", metavar="N|none", type=_Limit())
@options(JSON_OPTION, *SERVER_OPTIONS)
def limit(
    name: str, concurrency: int | None, *, as_json: bool, url: str, api_key: str | None
) -> None:
    """Let at most N jobs of a queue run at once, or any number (none).

    It holds over all workers and kinds. What runs goes on.

    \b
    Examples:
        coatcheck queues limit gpu 1
        coatcheck queues limit gpu none
    """
    with Api(url, api_key) as api:
        queue = api.limit_queue(name, concurrency)
    if as_json:
        print_json(queue)
        return
    most = queue["concurrency"]
    stands = "has no limit" if most is None else f"runs at most {most} at once"
    out().print(
        f"queue {plain(queue['name'])} {stands}: {queue['ready']} ready, "
        f"{queue['running']} running, {queue['delayed']} delayed",
        soft_wrap=True,
    )


def _list(*, as_json: bool, url: str, api_key: str | None) -> None:
    with Api(url, api_key) as api:
        answer = api.read("/v1/queues", "queues")
    if as_json:
        print_json(answer)
    else:
        print_table(COLUMNS, [_row(queue) for queue in answer["queues"]])


def _set_paused(name: str, *, paused: bool, as_json: bool, url: str, api_key: str | None) -> None:
    with Api(url, api_key) as api:
        queue = api.pause(name) if paused else api.resume(name)
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
        "" if queue["concurrency"] is None else queue["concurrency"],
        queue["delayed"],
        age(queue["oldest_ready_at"]),
        "paused" if queue["paused"] else "",
    )
