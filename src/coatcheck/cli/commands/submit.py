"""`coatcheck submit`: submit a job."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Any

import click

from coatcheck.cli.api import Api
from coatcheck.cli.commands.watch import TIMEOUT_OPTION, watch_to_end
from coatcheck.cli.options import (
    JSON_OPTION,
    SERVER_OPTIONS,
    address_hint,
    complete_kinds,
    complete_queues,
    label_pairs,
    options,
    read_input,
)
from coatcheck.cli.output.terminal import print_json, say
from coatcheck.cli.output.time_format import read_moment, read_seconds
from coatcheck.client.new_job import NewJob


@click.command()
@click.argument("kind", metavar="KIND", shell_complete=complete_kinds)
@click.argument("text", metavar="[JSON]", default="null")
@click.option(
    "--wait", is_flag=True, help="Follow the job until it is finished, and print its result."
)
@options(TIMEOUT_OPTION)
@click.option("--queue", shell_complete=complete_queues, help="The queue (the kind's own).")
@click.option("--priority", type=int, help="-1000 to 1000, higher first (0).")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="NAME=VALUE",
    help="A label; repeatable.",
)
@click.option(
    "--run-at",
    metavar="TIME",
    help="The earliest start: 2030-01-31T09:00:00Z, or 10m from now.",
)
@click.option(
    "--deadline",
    callback=read_seconds,
    metavar="DURATION",
    help="Fail the job if it is not finished after this time, including the time in the queue.",
)
@click.option("--max-attempts", type=int, help="The maximum number of attempts (the kind's own).")
@click.option("--webhook", metavar="URL", help="Call this URL when the job is finished.")
@click.option(
    "--key", help="An idempotency key: repeated commands with the same key submit one job."
)
@options(JSON_OPTION, *SERVER_OPTIONS)
def submit(
    kind: str,
    text: str,
    wait: bool,
    timeout: float | None,
    labels: tuple[str, ...],
    run_at: str | None,
    deadline: float | None,
    webhook: str | None,
    key: str | None,
    as_json: bool,
    url: str,
    api_key: str | None,
    **options_: Any,
) -> None:
    """Submit a job of a KIND, with its input as JSON.

    JSON is the input itself, @FILE, or - for stdin; leave it out if the kind takes no input. Prints
    the job's id. With --wait, shows live progress and prints the result on stdout; Ctrl-C stops
    waiting, and the job continues.

    \b
    Examples:
        coatcheck submit greet '"you"'
        coatcheck submit report '{"month": "2030-01"}' --wait
        coatcheck submit report @order.json --label customer=17 --key order-17
        generate-order | coatcheck submit report - --wait --timeout 15m > result.json
        id=$(coatcheck submit greet '"you"' --run-at 10m)
    """
    value = read_input(text)
    optional = {
        **options_,
        "run_at": None if run_at is None else _due(run_at, key),
        "deadline_s": deadline,
        "labels": dict(label_pairs(labels)) or None,
        "webhook": webhook,
    }
    given = {name: option for name, option in optional.items() if option is not None}
    with Api(url, api_key) as api:
        job = _submit(api, NewJob(kind, value, **given), key)
        if wait:
            if sys.stderr.isatty():
                say(f"job {job['id']}")
            sys.exit(watch_to_end(api, job["id"], timeout=timeout, raw=as_json))
    if as_json:
        print_json(job)
        return
    click.echo(job["id"])
    if sys.stdout.isatty():
        hint = address_hint(url)
        say(f"Follow it:  coatcheck watch {job['id']}{hint}")
        say(f"Show it:    coatcheck jobs show {job['id']}{hint}")


def _submit(api: Api, job: NewJob, key: str | None) -> dict[str, Any]:
    try:
        return api.call(api.calls.submit(job, key))
    except KeyboardInterrupt:
        say(
            "\nInterrupted before the server responded: the job may have been submitted. "
            "Repeating the command with the same --key is safe."
        )
        raise


def _due(run_at: str, key: str | None) -> datetime:
    moment, from_now = read_moment(run_at)
    if from_now and key is not None:
        # A relative time differs at each repetition, which the server rejects under one key.
        raise click.UsageError(
            "with --key, give --run-at as an absolute time: 2030-01-31T09:00:00Z"
        )
    return datetime.fromisoformat(moment)
