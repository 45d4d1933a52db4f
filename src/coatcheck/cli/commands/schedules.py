"""`coatcheck schedules`: create and manage schedules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from coatcheck.cli.api import Api
from coatcheck.cli.options import (
    JSON_OPTION,
    SERVER_OPTIONS,
    complete_kinds,
    complete_queues,
    complete_schedules,
    label_dict,
    list_by_default,
    options,
    read_input,
)
from coatcheck.cli.output.tables import TableColumn, print_pairs, print_table
from coatcheck.cli.output.terminal import out, plain, print_json
from coatcheck.cli.output.time_format import now, read_seconds, relative, short
from coatcheck.clock import from_rfc3339, to_rfc3339
from coatcheck.model.schedule import DEFAULT_ZONE, Timing, zone_of

COLUMNS = (
    TableColumn("SCHEDULE"),
    TableColumn("KIND", 2),
    TableColumn("WHEN"),
    TableColumn("NEXT", 1),
    TableColumn("LAST", 3),
    TableColumn("STATUS", 4),
)

one_schedule = click.argument("name", metavar="NAME", shell_complete=complete_schedules)
TIMING_OPTIONS = (
    click.option("--cron", metavar="EXPRESSION", help="A cron expression, such as '0 3 * * *'."),
    click.option(
        "--every",
        "every_s",
        callback=read_seconds,
        metavar="DURATION",
        help="An interval, such as 15m.",
    ),
    click.option("--start-at", metavar="TIME", help="The start of --every (now)."),
    click.option(
        "--timezone", metavar="ZONE", help="The time zone of --cron, such as Europe/Berlin (UTC)."
    ),
)


@click.group(invoke_without_command=True)
@options(JSON_OPTION, *SERVER_OPTIONS)
@click.pass_context
def schedules(ctx: click.Context, /, **given: Any) -> None:
    """Manage schedules, which submit jobs by the clock.

    \b
    Examples:
        coatcheck schedules
        coatcheck schedules create nightly report '"2030-01"' --cron '0 3 * * *'
        coatcheck schedules pause nightly
    """
    list_by_default(ctx, given, _list)


@schedules.command("list")
@options(JSON_OPTION, *SERVER_OPTIONS)
def list_schedules(**given: Any) -> None:
    """List the schedules and their next ticks.

    \b
    Examples:
        coatcheck schedules list
        coatcheck schedules list --json | jq '.schedules[] | select(.problem) | .name'
    """
    _list(**given)


@schedules.command()
@one_schedule
@options(JSON_OPTION, *SERVER_OPTIONS)
def show(name: str, as_json: bool, url: str, api_key: str | None) -> None:
    """Show a schedule.

    \b
    Examples:
        coatcheck schedules show nightly
    """
    with Api(url, api_key) as api:
        schedule = api.schedule(name)
    if as_json:
        print_json(schedule)
    else:
        _print(schedule)


@schedules.command()
@one_schedule
@click.argument("kind", metavar="KIND", shell_complete=complete_kinds)
@click.argument("text", metavar="[JSON]", default="null")
@options(*TIMING_OPTIONS)
@click.option(
    "--catch-up",
    type=click.Choice(["latest", "skip", "all"]),
    help="Which missed ticks to run (latest).",
)
@click.option(
    "--overlap",
    type=click.Choice(["allow", "skip"]),
    help="Whether to start a job while the last one is unfinished (allow).",
)
@click.option("--queue", shell_complete=complete_queues, help="The queue (the kind's own).")
@click.option("--priority", type=int, help="-1000 to 1000, higher first (0).")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="NAME=VALUE",
    help="A label for the jobs; repeatable.",
)
@click.option(
    "--deadline",
    "deadline_s",
    callback=read_seconds,
    metavar="DURATION",
    help="Fail a job that is not finished after this time, including the time in the queue.",
)
@click.option("--max-attempts", type=int, help="The maximum number of attempts (the kind's own).")
@options(JSON_OPTION, *SERVER_OPTIONS)
def create(
    name: str,
    kind: str,
    text: str,
    labels: Sequence[str],
    as_json: bool,
    url: str,
    api_key: str | None,
    **settings: Any,
) -> None:
    """Create or replace a schedule.

    KIND and JSON describe its jobs, as in `coatcheck submit`. The jobs have the label
    schedule=NAME. The fields of --cron are minute, hour, day of month, month and day of week.

    \b
    Examples:
        coatcheck schedules create nightly tidy --cron '30 2 * * *' --timezone Europe/Berlin
        coatcheck schedules create refresh report @order.json --every 15m --overlap skip
    """
    settings["labels"] = label_dict(labels) or None
    if settings["start_at"] is not None:
        settings["start_at"] = datetime.fromisoformat(_moment(settings["start_at"]))
    given = {name: value for name, value in settings.items() if value is not None}
    with Api(url, api_key) as api:
        schedule = api.put_schedule(name, kind, read_input(text), **given)
    if as_json:
        print_json(schedule)
    else:
        _print_due(schedule, "is due")


@schedules.command()
@one_schedule
@options(JSON_OPTION, *SERVER_OPTIONS)
def pause(name: str, **given: Any) -> None:
    """Pause a schedule. Ticks that fall due while it is paused are skipped.

    \b
    Examples:
        coatcheck schedules pause nightly
    """
    _set_paused(name, paused=True, **given)


@schedules.command()
@one_schedule
@options(JSON_OPTION, *SERVER_OPTIONS)
def resume(name: str, **given: Any) -> None:
    """Resume a paused schedule with its next tick.

    \b
    Examples:
        coatcheck schedules resume nightly
    """
    _set_paused(name, paused=False, **given)


@schedules.command()
@one_schedule
@options(JSON_OPTION, *SERVER_OPTIONS)
def trigger(name: str, as_json: bool, url: str, api_key: str | None) -> None:
    """Submit a schedule's job now, and print the job's id.

    The ticks do not change. A paused schedule can be triggered too.

    \b
    Examples:
        coatcheck schedules trigger nightly
        id=$(coatcheck schedules trigger nightly)
    """
    with Api(url, api_key) as api:
        job = api.trigger(name).job
    if as_json:
        print_json(job)
    else:
        click.echo(job["id"])


@schedules.command()
@one_schedule
@options(JSON_OPTION, *SERVER_OPTIONS)
def delete(name: str, as_json: bool, url: str, api_key: str | None) -> None:
    """Delete a schedule. Its jobs remain.

    A schedule that an app declares is created again when the app starts: remove it from the code.

    \b
    Examples:
        coatcheck schedules delete nightly
    """
    with Api(url, api_key) as api:
        schedule = api.call(api.calls.schedules.delete(name))
    if as_json:
        print_json(schedule)
    else:
        out().print(f"schedule {plain(schedule['name'])} is deleted", soft_wrap=True)


@schedules.command("next")
@click.argument("name", metavar="[NAME]", required=False, shell_complete=complete_schedules)
@click.option("--count", type=click.IntRange(1, 100), default=10, help="The number of ticks (10).")
@options(*TIMING_OPTIONS)
@options(JSON_OPTION, *SERVER_OPTIONS)
def next_ticks(
    name: str | None,
    count: int,
    cron: str | None,
    every_s: float | None,
    start_at: str | None,
    timezone: str | None,
    as_json: bool,
    url: str,
    api_key: str | None,
) -> None:
    """Show the next ticks of a schedule, or of one with these options.

    \b
    Examples:
        coatcheck schedules next nightly
        coatcheck schedules next --cron '30 2 * * sun' --timezone Europe/Berlin --count 3
    """
    if name is not None:
        if cron or every_s or start_at or timezone:
            raise click.UsageError("give either the name of a schedule or its timing")
        with Api(url, api_key) as api:
            zone, ticks = api.schedule(name)["timezone"], api.ticks(name, count)
    else:
        zone = timezone or DEFAULT_ZONE
        ticks = _ticks(cron, every_s, start_at, zone, count)
    if as_json:
        print_json({"ticks": ticks})
        return
    rows = [(tick, _local(tick, zone), relative(tick)) for tick in ticks]
    print_table((TableColumn("TICK"), TableColumn(plain(zone), 2), TableColumn("", 1)), rows)


def _ticks(
    cron: str | None, every_s: float | None, start_at: str | None, zone: str, count: int
) -> list[str]:
    timing = Timing(
        cron=cron,
        every_ms=None if every_s is None else round(every_s * 1000),
        start_at=None if start_at is None else from_rfc3339(_moment(start_at)),
        timezone=zone,
    )
    problems = timing.problems()
    if problems:
        raise click.UsageError(
            "; ".join(f"{pointer[1:]}: {detail}" for pointer, detail in problems)
        )
    return [to_rfc3339(tick) for tick in timing.upcoming(now(), now(), count)]


def _list(*, as_json: bool, url: str, api_key: str | None) -> None:
    with Api(url, api_key) as api:
        found = api.schedules()
    if as_json:
        print_json({"schedules": found})
    else:
        print_table(COLUMNS, [_row(schedule) for schedule in found])


def _set_paused(name: str, *, paused: bool, as_json: bool, url: str, api_key: str | None) -> None:
    with Api(url, api_key) as api:
        schedule = api.pause_schedule(name) if paused else api.resume_schedule(name)
    if as_json:
        print_json(schedule)
    elif schedule["paused"]:
        out().print(f"schedule {plain(schedule['name'])} is paused", soft_wrap=True)
    else:
        _print_due(schedule, "is resumed, next due")


def _print_due(schedule: dict[str, Any], what: str) -> None:
    due = schedule["next_at"]
    when = "after it is resumed" if due is None else f"{due} ({relative(due)})"
    out().print(f"schedule {plain(schedule['name'])} {what}: {when}", soft_wrap=True)


def _row(schedule: dict[str, Any]) -> Sequence[object]:
    due, last = schedule["next_at"], schedule["last_at"]
    status = "paused" if schedule["paused"] else "problem" if schedule["problem"] else ""
    return (
        schedule["name"],
        schedule["kind"],
        _timing(schedule),
        "" if due is None else relative(due),
        "" if last is None else relative(last),
        status,
    )


def _print(schedule: dict[str, Any]) -> None:
    labels = ", ".join(f"{name}={value}" for name, value in schedule["labels"].items())
    print_pairs(
        [
            ("name", schedule["name"]),
            ("kind", schedule["kind"]),
            ("when", _timing(schedule)),
            ("next", _with_age(schedule["next_at"])),
            ("last", _with_age(schedule["last_at"])),
            ("last job", schedule["last_job"]),
            ("paused", "yes" if schedule["paused"] else None),
            ("problem", schedule["problem"]),
            ("catch up", schedule["catch_up"]),
            ("overlap", schedule["overlap"]),
            ("queue", schedule["queue"]),
            ("priority", schedule["priority"] or None),
            ("labels", labels),
            ("declared", "by an app" if schedule["declared"] else None),
            ("created", _with_age(schedule["created_at"])),
            ("changed", _with_age(schedule["updated_at"])),
        ]
    )


def _timing(schedule: dict[str, Any]) -> str:
    if schedule["cron"] is None:
        return f"every {short(schedule['every_s'] * 1000)}"
    return f"{schedule['cron']} {schedule['timezone']}"


def _with_age(moment: str | None) -> str | None:
    return None if moment is None else f"{moment} ({relative(moment)})"


def _local(tick: str, zone: str) -> str:
    moment = datetime.fromtimestamp(from_rfc3339(tick) / 1000, UTC).astimezone(zone_of(zone))
    return f"{moment:%a %Y-%m-%d %H:%M:%S %z}"


def _moment(given: str) -> str:
    try:
        return to_rfc3339(from_rfc3339(given))
    except ValueError:
        message = f"--start-at: {given!r} is not a time such as 2030-01-31T09:00:00Z"
        raise click.UsageError(message) from None
