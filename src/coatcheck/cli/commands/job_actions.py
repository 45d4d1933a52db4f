"""`coatcheck jobs steps`, `send`, `resume` and `fork`: what a job has done, and how it goes on."""

from __future__ import annotations

import sys

import click

from coatcheck.cli import exit_codes
from coatcheck.cli.api import Api, Json, job_path, job_query
from coatcheck.cli.for_each_job import for_each, one_job
from coatcheck.cli.json_input import read_input
from coatcheck.cli.options import (
    JSON_OPTION,
    SERVER_OPTIONS,
    address_hint,
    complete_jobs,
    complete_kinds,
    complete_queues,
    label_pairs,
    options,
)
from coatcheck.cli.output.job_pages import print_steps
from coatcheck.cli.output.terminal import out, plain, print_json, say
from coatcheck.cli.output.time_format import read_since
from coatcheck.client.calls.jobs import JobQuery


@click.command()
@one_job
@options(JSON_OPTION, *SERVER_OPTIONS)
def steps(job_id: str, as_json: bool, url: str, api_key: str | None) -> None:
    """Show what a job has done so far: its steps, waits and the jobs it has spawned.

    What is there is not done again when the job is run again. The number in front is what
    `coatcheck jobs fork --from` takes.

    \b
    Examples:
        coatcheck jobs steps 01JD0Z3N6V8Q2T4W6Y8A0C2E4G
        coatcheck jobs steps 01JD0Z3N6V8Q2T4W6Y8A0C2E4G --json | jq '.steps[].name'
    """
    with Api(url, api_key) as api:
        found = api.read(f"{job_path(job_id)}/steps", "steps")
    if as_json:
        print_json(found)
    elif found["steps"]:
        print_steps(found["steps"])
    else:
        say(f"job {job_id} has taken no steps")


@click.command()
@one_job
@click.argument("event", metavar="EVENT")
@click.argument("text", metavar="[JSON]", default="null")
@options(JSON_OPTION, *SERVER_OPTIONS)
def send(job_id: str, event: str, text: str, as_json: bool, url: str, api_key: str | None) -> None:
    """Send an event to a job, for a handler that waits for it with ctx.wait_for(EVENT).

    JSON is what comes with it: the value itself, @FILE, or - for stdin. An event is kept until
    the handler waits for it; sent twice, it is two events.

    \b
    Examples:
        coatcheck jobs send 01JD0Z3N6V8Q2T4W6Y8A0C2E4G approved
        coatcheck jobs send 01JD0Z3N6V8Q2T4W6Y8A0C2E4G approved '{"by": "ada"}'
    """
    data = read_input(text)
    with Api(url, api_key) as api:
        job = api.send(job_id, event, data)
    if as_json:
        print_json(job)
    else:
        out().print(f"{plain(job_id)} was sent {plain(event)}", soft_wrap=True)


@click.command()
@click.argument("job_ids", metavar="[ID]...", nargs=-1, shell_complete=complete_jobs)
@click.option("--failed", "state", flag_value="failed", help="All that failed (the default).")
@click.option("--cancelled", "state", flag_value="cancelled", help="All that were cancelled.")
@click.option("--kind", shell_complete=complete_kinds, help="All of this kind.")
@click.option("--queue", shell_complete=complete_queues, help="All of this queue.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="NAME=VALUE",
    help="All with this label; given several times, with all of them.",
)
@click.option(
    "--since",
    callback=read_since,
    metavar="TIME",
    help="All submitted in the last 1d, since yesterday, or from 2030-01-31T09:00:00Z on.",
)
@click.option("--yes", is_flag=True, help="Do not ask before resuming all that were found.")
@options(JSON_OPTION, *SERVER_OPTIONS)
def resume(
    job_ids: tuple[str, ...],
    labels: tuple[str, ...],
    since: str | None,
    yes: bool,
    as_json: bool,
    url: str,
    api_key: str | None,
    **filters: str | None,
) -> None:
    """Let jobs go on that failed or were cancelled: those named, or all that the options find.

    A job goes on from its last checkpoint, under the same id and with all its attempts. Jobs
    that were found by options are counted first, and you are asked. One that succeeded, or has
    not ended, stays as it is.

    \b
    Examples:
        coatcheck jobs resume 01JD0Z3N6V8Q2T4W6Y8A0C2E4G
        coatcheck jobs resume --failed --kind report --since yesterday
        coatcheck jobs resume --cancelled --label customer=17 --since 1d --yes
    """
    which = job_query(labels=dict(label_pairs(labels)), since=since, **filters)
    if bool(job_ids) == bool(which):
        raise click.UsageError("name jobs by their ids, or say which: --failed, --kind, --since …")
    with Api(url, api_key) as api:
        if job_ids:
            for_each(job_ids, api.resume_job, _standing, as_json)
        else:
            _resume_all(api, which, yes=yes, as_json=as_json)


def _standing(job: Json) -> str:
    if job["finished_at"] is not None:
        return f"had {job['state']} before"
    return f"is {job['state']}" + (" again" if job["reason"] == "resumed" else "")


def _resume_all(api: Api, which: JobQuery, *, yes: bool, as_json: bool) -> None:
    found = api.resume_all(dry_run=True, **which)
    state = which.get("state", "failed")
    if found and not yes and not click.confirm(f"Resume {found} {state} job(s)?", err=True):
        say("Nothing was resumed.")
        sys.exit(exit_codes.FAILED)
    resumed = api.resume_all(**which) if found else 0
    if as_json:
        print_json({"jobs": resumed})
    else:
        out().print(f"{resumed} job(s) resumed")


@click.command()
@one_job
@click.option(
    "--from",
    "from_step",
    metavar="STEP",
    required=True,
    help="The first step to take anew: its number in `coatcheck jobs steps`, or its name.",
)
@click.option(
    "--input",
    "text",
    metavar="JSON",
    help="Another input: as it is, @FILE, or - for stdin.",
)
@options(JSON_OPTION, *SERVER_OPTIONS)
def fork(
    job_id: str,
    from_step: str,
    text: str | None,
    as_json: bool,
    url: str,
    api_key: str | None,
) -> None:
    """Begin a new job at a step of another one, and print its id.

    It is of the same kind and has the same input, unless another one is given. What was done
    before that step is taken over and not done again.

    \b
    Examples:
        coatcheck jobs fork 01JD0Z3N6V8Q2T4W6Y8A0C2E4G --from 2
        coatcheck jobs fork 01JD0Z3N6V8Q2T4W6Y8A0C2E4G --from charge --input '{"card": 2}'
        id=$(coatcheck jobs fork 01JD0Z3N6V8Q2T4W6Y8A0C2E4G --from charge)
    """
    is_number = from_step.isascii() and from_step.isdecimal()
    body: Json = {"from_step": int(from_step) if is_number else from_step}
    if text is not None:
        body["input"] = read_input(text)
    with Api(url, api_key) as api:
        job = api.call(api.calls.fork(job_id, body, key=None))
    if as_json:
        print_json(job)
        return
    click.echo(job["id"])
    if sys.stdout.isatty():
        say(f"Watch it:  coatcheck watch {job['id']}{address_hint(url)}")
