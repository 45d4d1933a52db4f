"""Options, arguments and shell completion that commands share."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from coatcheck.client.address import DEFAULT_URL, without_password
from coatcheck.errors import CoatcheckError

if TYPE_CHECKING:
    from coatcheck.cli.api import Api

F = TypeVar("F", bound=Callable[..., Any])

# A shell that waits longer feels broken.
COMPLETION_TIMEOUT_S = 0.5

SETTING_OPTIONS = (
    click.option("--database", metavar="URL", help="The database, such as sqlite:///jobs.db."),
    click.option("--blobs", metavar="URL", help="The store for files and large payloads."),
    click.option("--config", metavar="FILE", help="A TOML file with settings."),
)
WORKER_OPTIONS = (
    click.option(
        "--concurrency", type=int, help="The number of jobs that run at once (8 per core)."
    ),
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
        help="An API key, if the server requires one. Prefer COATCHECK_API_KEY: process lists "
        "show options.",
    ),
)
JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def options(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Add several options to a command."""

    def add(command: F) -> F:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return add


def list_by_default(
    ctx: click.Context, given: Mapping[str, Any], list_: Callable[..., None]
) -> None:
    """List a group's items if it is called without a subcommand.

    Options before a subcommand would be ignored, so they are rejected.
    """
    if ctx.invoked_subcommand is None:
        list_(**given)
        return
    for name in given:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"put options after {ctx.invoked_subcommand!r}")


def label_pairs(labels: Iterable[str]) -> list[tuple[str, str]]:
    """Parse labels written as name=value."""
    pairs = []
    for label in labels:
        name, equals, value = label.partition("=")
        if not name or not equals:
            raise click.UsageError(f"write a label as name=value, not {label!r}")
        pairs.append((name, value))
    return pairs


def label_dict(labels: Iterable[str]) -> dict[str, str]:
    """Parse labels written as name=value; a name has one value."""
    found: dict[str, str] = {}
    for name, value in label_pairs(labels):
        if found.setdefault(name, value) != value:
            raise click.UsageError(f"{name!r} is given two values: {found[name]!r} and {value!r}")
    return found


def address_hint(url: str) -> str:
    """Return the --url option that a suggested command needs, or nothing for the default."""
    known = os.environ.get("COATCHECK_URL") or DEFAULT_URL
    return "" if url == known else f" --url {without_password(url)}"


def complete_jobs(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete job ids, newest first."""
    found = _query(ctx, lambda api: api.list(limit=50).jobs)
    return [
        CompletionItem(job["id"], help=f"{job['kind']} {job['state']}")
        for job in found
        if job["id"].startswith(incomplete.upper())
    ]


def complete_kinds(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete kinds."""
    found = _query(ctx, lambda api: api.kinds())
    return [CompletionItem(kind["name"]) for kind in found if kind["name"].startswith(incomplete)]


def complete_queues(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete queues."""
    found = _query(ctx, lambda api: api.queues())
    return [
        CompletionItem(queue["name"], help="paused" if queue["paused"] else None)
        for queue in found
        if queue["name"].startswith(incomplete)
    ]


def complete_schedules(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete schedules."""
    found = _query(ctx, lambda api: api.schedules())
    return [
        CompletionItem(schedule["name"], help="paused" if schedule["paused"] else None)
        for schedule in found
        if schedule["name"].startswith(incomplete)
    ]


def _query(ctx: click.Context, query: Callable[[Api], list[Any]]) -> list[Any]:
    from coatcheck.cli.api import Api  # noqa: PLC0415 - only completion needs it here

    url = ctx.params.get("url") or os.environ.get("COATCHECK_URL") or DEFAULT_URL
    key = ctx.params.get("api_key") or os.environ.get("COATCHECK_API_KEY")
    try:
        with Api(url, key, timeout=COMPLETION_TIMEOUT_S) as api:
            return query(api)
    except (CoatcheckError, LookupError, TypeError):
        return []


def read_input(text: str) -> Any:
    """Parse a JSON argument: the text itself, @FILE, or - for stdin."""
    if text == "-":
        with click.open_file("-", encoding="utf-8") as stream:
            return _parse(_content(stream.read, "stdin"), "stdin")
    if text.startswith("@"):
        path = Path(text[1:])
        return _parse(_content(lambda: path.read_text(encoding="utf-8"), str(path)), str(path))
    return _parse(text, "the input")


def _content(read: Any, where: str) -> str:
    try:
        return str(read())
    except OSError as error:
        raise click.UsageError(f"cannot read {where}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"cannot read {where}: it is not UTF-8") from None


def _parse(text: str, what: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_reject_constant, object_pairs_hook=_object)
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        hint = f"; write a string as '\"{text}\"'" if text.isidentifier() else ""
        place = f"line {error.lineno}, column {error.colno}"
        raise click.UsageError(f"{what} is not JSON: {error.msg} ({place}){hint}") from None
    except UnicodeEncodeError:
        raise click.UsageError(f"{what} cannot be sent: it contains a lone surrogate") from None
    except RecursionError:
        raise click.UsageError(f"{what} cannot be sent: it is nested too deeply") from None
    except ValueError as error:
        raise click.UsageError(f"{what} cannot be sent: {error}") from None
    return value


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has a duplicate key")
    return found
