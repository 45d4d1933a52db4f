"""`coatcheck exec`: run a command on a server as if it ran here."""

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
    help="The time limit (300); exit code 124 if exceeded.",
)
@options(*SERVER_OPTIONS)
def execute(command: tuple[str, ...], seconds: float, url: str, api_key: str | None) -> None:
    """Run a command in the sandbox of a server that has the tasks surface.

    Prints the command's output as it appears and exits with its exit code. The command is not
    interpreted by a shell. Ctrl-C leaves it running and prints how to follow it. `coatcheck serve`
    without an app has the tasks surface.

    \b
    Examples:
        coatcheck exec -- uname -a
        coatcheck exec --seconds 10 -- sleep 60
    """
    request = {"argv": list(command), "seconds": seconds}
    with Api(url, api_key) as api:
        job = api.submit(KIND, request).job
        try:
            _show_output(api, job["id"])
        except KeyboardInterrupt:
            hint = address_hint(url)
            say(f"\nThe command continues. Follow it with: coatcheck watch {job['id']}{hint}")
            sys.exit(exit_codes.INTERRUPTED)
        sys.exit(_finish(api, api.read_job(job["id"])))


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


def _finish(api: Api, job: dict[str, Any]) -> int:
    if job["state"] == "succeeded":
        sys.stderr.write(job["result"]["stderr"])
        return int(job["result"]["exit_code"])
    if not any(artifact["name"] == RAN for artifact in job["artifacts"]):
        return print_outcome(job, raw=False)
    run = json.loads(api.artifact(job["id"], RAN))
    sys.stderr.write(run["stderr"])
    if run["timed_out"]:
        complain(job["error"]["message"])
    return int(run["exit_code"])
