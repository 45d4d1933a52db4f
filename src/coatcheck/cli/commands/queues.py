"""`coatcheck queues`: list, pause, resume and limit queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from coatcheck.cli.api import Api
from coatcheck.cli.options import (
    JSON_OPTION,
    SERVER_OPTIONS,
    complete_queues,
    list_by_default,
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
    """A positive number, or `none`."""

    name = "limit"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | None:
        """Parse the value."""
        if value == "none":
            return None
        if not str(value).isdecimal() or int(value) < 1:
            self.fail(f"{value!r} is neither a positive number nor `none`", param, ctx)
        return int(value)


one_queue = click.argument("name", metavar="NAME", shell_complete=complete_queues)


@click.group(invoke_without_command=True)
@options(JSON_OPTION, *SERVER_OPTIONS)
@click.pass_context
def queues(ctx: click.Context, /, **given: Any) -> None:
    """List, pause, resume and limit queues.

    \b
    Examples:
        coatcheck queues
        coatcheck queues pause reports
        coatcheck queues resume reports
        coatcheck queues limit gpu 1
    """
    list_by_default(ctx, given, _list)


@queues.command("list")
@options(JSON_OPTION, *SERVER_OPTIONS)
def list_queues(**given: Any) -> None:
    """List the queues and their depths.

    READY is the number of jobs that could start now, OLDEST how long the first of them has waited.

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
    """Pause a queue. Running jobs continue.

    \b
    Examples:
        coatcheck queues pause reports
    """
    _set_paused(name, paused=True, **given)


@queues.command()
@one_queue
@options(JSON_OPTION, *SERVER_OPTIONS)
def resume(name: str, **given: Any) -> None:
    """Resume a paused queue.

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
    """Limit how many jobs of a queue run at once; none removes the limit.

    The limit applies across all workers and kinds. Running jobs continue.

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
    status = "has no limit" if most is None else f"runs at most {most} at once"
    out().print(
        f"queue {plain(queue['name'])} {status}: {queue['ready']} ready, "
        f"{queue['running']} running, {queue['delayed']} delayed",
        soft_wrap=True,
    )


def _list(*, as_json: bool, url: str, api_key: str | None) -> None:
    with Api(url, api_key) as api:
        response = api.read("/v1/queues", "queues")
    if as_json:
        print_json(response)
    else:
        print_table(COLUMNS, [_row(queue) for queue in response["queues"]])


def _set_paused(name: str, *, paused: bool, as_json: bool, url: str, api_key: str | None) -> None:
    with Api(url, api_key) as api:
        queue = api.pause(name) if paused else api.resume(name)
    if as_json:
        print_json(queue)
        return
    status = "is paused" if queue["paused"] else "is resumed"
    out().print(
        f"queue {plain(queue['name'])} {status}: {queue['ready']} ready, "
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
