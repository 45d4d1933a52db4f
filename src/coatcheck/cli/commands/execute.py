"""`coatcheck exec`: a command runs elsewhere, and looks as if it ran here."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from coatcheck.cli import exit_codes
from coatcheck.cli.api import Api
from coatcheck.cli.commands.watch import print_outcome
from coatcheck.cli.options import SERVER_OPTIONS, address_hint, options
from coatcheck.cli.output.terminal import complain, say
from coatcheck.surfaces.tasks.constants import KIND, RAN

POLL_S = 25.0
DEFAULT_S = 300.0


@click.command(name="exec")
@click.argument("command", nargs=-1, required=True, metavar="COMMAND...")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=DEFAULT_S,
    help="How long it may run (300); longer: exit code 124.",
)
@options(*SERVER_OPTIONS)
def execute(command: tuple[str, ...], seconds: float, url: str, api_key: str | None) -> None:
    """Run a command in the sandbox of a server that has the tasks surface.

    What it says comes as it says it, and its exit code is this command's. No shell reads it. Ctrl-C
    leaves it running and says how to come back to it. `coatcheck serve` without an app is such a
    server.

    \b
    Examples:
        coatcheck exec -- uname -a
        coatcheck exec --seconds 10 -- sleep 60
    """
    asked = {"argv": list(command), "seconds": seconds}
    with Api(url, api_key) as api:
        job = api.submit(KIND, asked).job
        try:
            _show_output(api, job["id"])
        except KeyboardInterrupt:
            hint = address_hint(url)
            say(f"\nIt goes on. Come back to it with: coatcheck watch {job['id']}{hint}")
            sys.exit(exit_codes.INTERRUPTED)
        sys.exit(_end(api, api.read_job(job["id"])))


def _show_output(api: Api, job_id: str) -> None:
    seen = 0
    while True:
        page = api.read_events(job_id, seen, POLL_S)
        for event in page["events"]:
            seen = event["seq"]
            if event["type"] == "output":
                sys.stdout.write(event["data"]["stdout"])
                sys.stdout.flush()
        if page["ended"] and seen >= page["last"]:
            return


def _end(api: Api, job: dict[str, Any]) -> int:
    if job["state"] == "succeeded":
        sys.stderr.write(job["result"]["stderr"])
        return int(job["result"]["exit_code"])
    if not any(kept["name"] == RAN for kept in job["artifacts"]):
        return print_outcome(job, raw=False)
    ran = json.loads(api.artifact(job["id"], RAN))
    sys.stderr.write(ran["stderr"])
    if ran["timed_out"]:
        complain(job["error"]["message"])
    return int(ran["exit_code"])
