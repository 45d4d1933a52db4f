"""`coatcheck submit`."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Any

import click

from coatcheck.cli.api import Api
from coatcheck.cli.commands.watch import TIMEOUT_OPTION, watch_to_end
from coatcheck.cli.json_input import read_input
from coatcheck.cli.options import (
    JSON_OPTION,
    SERVER_OPTIONS,
    address_hint,
    complete_kinds,
    complete_queues,
    label_pairs,
    options,
)
from coatcheck.cli.output.terminal import print_json, say
from coatcheck.cli.output.time_format import read_moment, read_seconds
from coatcheck.client.new_job import NewJob


@click.command()
@click.argument("kind", metavar="KIND", shell_complete=complete_kinds)
@click.argument("text", metavar="[JSON]", default="null")
@click.option("--wait", is_flag=True, help="Watch the job until it ends, and print its result.")
@options(TIMEOUT_OPTION)
@click.option("--queue", shell_complete=complete_queues, help="Another queue than the kind's own.")
@click.option("--priority", type=int, help="-1000 to 1000, higher first (0).")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="NAME=VALUE",
    help="A label to find it by; may be given several times.",
)
@click.option(
    "--run-at",
    metavar="TIME",
    help="Not before 2030-01-31T09:00:00Z, or in 10m.",
)
@click.option(
    "--deadline",
    callback=read_seconds,
    metavar="DURATION",
    help="Fail it when it has not ended after this long, waiting included.",
)
@click.option("--max-attempts", type=int, help="How often it may be tried (the kind's own).")
@click.option("--webhook", metavar="URL", help="Call this address when it has ended.")
@click.option("--key", help="An idempotency key: repeated under it, the job is submitted once.")
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
    **terms: Any,
) -> None:
    """Hand in a job: its KIND, and its input as JSON.

    JSON is the input itself, @FILE for what is in a file, or - for what comes on stdin; a kind
    that takes no input needs none. Prints the job's id; with --wait a live view, and the result
    on stdout. Ctrl-C then stops waiting, and the job goes on.

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
        **terms,
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
        say(f"Watch it:  coatcheck watch {job['id']}{hint}")
        say(f"Look at it:  coatcheck jobs show {job['id']}{hint}")


def _submit(api: Api, job: NewJob, key: str | None) -> dict[str, Any]:
    try:
        return api.call(api.calls.submit(job, key))
    except KeyboardInterrupt:
        say(
            "\nInterrupted before the server answered: the job may have been submitted. "
            "Repeating the command under the same --key is safe."
        )
        raise


def _due(run_at: str, key: str | None) -> datetime:
    moment, from_now = read_moment(run_at)
    if from_now and key is not None:
        # Told from now, each repetition would be another request, and the key could not hold.
        raise click.UsageError("with --key, write --run-at in full, as 2030-01-31T09:00:00Z")
    return datetime.fromisoformat(moment)
