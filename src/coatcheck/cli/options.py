"""What several commands share: options, and completing ids, kinds and queues from the server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from coatcheck.client.address import DEFAULT_URL, without_password
from coatcheck.errors import CoatcheckError

if TYPE_CHECKING:
    from coatcheck.cli.api import Api

F = TypeVar("F", bound=Callable[..., Any])

# A shell that waits longer feels broken; without an answer there is nothing to propose.
COMPLETION_TIMEOUT_S = 0.5

SETTING_OPTIONS = (
    click.option("--database", metavar="URL", help="Where jobs live, such as sqlite:///jobs.db."),
    click.option("--blobs", metavar="URL", help="Where files and large payloads live."),
    click.option("--config", metavar="FILE", help="A TOML file with settings."),
)
WORKER_OPTIONS = (
    click.option("--concurrency", type=int, help="Jobs run at once (8 per core)."),
    click.option("--supervisor-pipe", type=int, hidden=True),
)
SERVER_OPTIONS = (
    click.option(
        "--url",
        envvar="COATCHECK_URL",
        default=DEFAULT_URL,
        metavar="URL",
        help=f"The server ({DEFAULT_URL}); also COATCHECK_URL.",
    ),
    click.option(
        "--api-key",
        envvar="COATCHECK_API_KEY",
        metavar="KEY",
        help="Your key, where the server asks for one; better COATCHECK_API_KEY, which nobody "
        "sees in a list of processes.",
    ),
)
JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="JSON, for scripts.")


def options(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Add several options to a command."""

    def add(command: F) -> F:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return add


def list_or_go_on(ctx: click.Context, given: Mapping[str, Any], list_: Callable[..., None]) -> None:
    """Let a group that is called alone list what there is; options before one of its commands would
    be lost, and are refused.
    """
    if ctx.invoked_subcommand is None:
        list_(**given)
        return
    for name in given:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"put options behind {ctx.invoked_subcommand!r}")


def label_pairs(labels: Iterable[str]) -> list[tuple[str, str]]:
    """Read labels written as name=value."""
    pairs = []
    for label in labels:
        name, equals, value = label.partition("=")
        if not name or not equals:
            raise click.UsageError(f"write a label as name=value, not {label!r}")
        pairs.append((name, value))
    return pairs


def address_hint(url: str) -> str:
    """Return what must stand behind a command so that it finds the same server again."""
    known = os.environ.get("COATCHECK_URL") or DEFAULT_URL
    return "" if url == known else f" --url {without_password(url)}"


def complete_jobs(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Propose ids of jobs, the newest first."""
    found = _ask(ctx, lambda api: api.list(limit=50).jobs)
    return [
        CompletionItem(job["id"], help=f"{job['kind']} {job['state']}")
        for job in found
        if job["id"].startswith(incomplete.upper())
    ]


def complete_kinds(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Propose kinds."""
    found = _ask(ctx, lambda api: api.kinds())
    return [CompletionItem(kind["name"]) for kind in found if kind["name"].startswith(incomplete)]


def complete_queues(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Propose queues."""
    found = _ask(ctx, lambda api: api.queues())
    return [
        CompletionItem(queue["name"], help="paused" if queue["paused"] else None)
        for queue in found
        if queue["name"].startswith(incomplete)
    ]


def complete_schedules(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Propose schedules."""
    found = _ask(ctx, lambda api: api.schedules())
    return [
        CompletionItem(schedule["name"], help="paused" if schedule["paused"] else None)
        for schedule in found
        if schedule["name"].startswith(incomplete)
    ]


def _ask(ctx: click.Context, question: Callable[[Api], list[Any]]) -> list[Any]:
    from coatcheck.cli.api import Api  # noqa: PLC0415 - only completion asks a server from here

    url = ctx.params.get("url") or os.environ.get("COATCHECK_URL") or DEFAULT_URL
    key = ctx.params.get("api_key") or os.environ.get("COATCHECK_API_KEY")
    try:
        with Api(url, key, timeout=COMPLETION_TIMEOUT_S) as api:
            return question(api)
    except (CoatcheckError, LookupError, TypeError):
        return []
