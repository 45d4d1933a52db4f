"""`coatcheck jobs steps`, `send`, `resume` and `fork`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import click

from coatcheck.cli import exit_codes
from coatcheck.cli.api import Api, ApiError, Json, job_path, job_query
from coatcheck.cli.options import (
    JSON_OPTION,
    SERVER_OPTIONS,
    address_hint,
    complete_jobs,
    complete_kinds,
    complete_queues,
    label_dict,
    options,
    read_input,
)
from coatcheck.cli.output.job_pages import print_steps
from coatcheck.cli.output.terminal import complain, out, plain, print_json, say
from coatcheck.cli.output.time_format import read_since
from coatcheck.client.calls.jobs import JobQuery

one_job = click.argument("job_id", metavar="ID", shell_complete=complete_jobs)
several_jobs = click.argument(
    "job_ids", metavar="ID...", nargs=-1, required=True, shell_complete=complete_jobs
)


def for_each(
    job_ids: Iterable[str],
    action: Callable[[str], Json],
    describe: Callable[[Json], str],
    as_json: bool,
) -> None:
    """Perform an action on each job; continue after a failure.

    The exit code is that of the first failure. JSON output has one line for each job.
    """
    exit_code = exit_codes.OK
    for job_id in job_ids:
        try:
            response = action(job_id)
        except ApiError as error:
            exit_code = exit_code or error.exit_code
            complain(f"{job_id}: {error}")
            if error.exit_code in (exit_codes.UNREACHABLE, exit_codes.NOT_ALLOWED):
                break
            continue
        if as_json:
            print_json(response)
        else:
            out().print(f"{plain(job_id)} {describe(response)}", soft_wrap=True)
    if exit_code:
        sys.exit(exit_code)


@click.command()
@one_job
@options(JSON_OPTION, *SERVER_OPTIONS)
def steps(job_id: str, as_json: bool, url: str, api_key: str | None) -> None:
    """Show a job's recorded steps, waits and child jobs.

    Recorded steps do not run again in a later attempt. Pass the number in the first column to
    `coatcheck jobs fork --from`.

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
        say(f"job {job_id} has no recorded steps")


@click.command()
@one_job
@click.argument("event", metavar="EVENT")
@click.argument("text", metavar="[JSON]", default="null")
@options(JSON_OPTION, *SERVER_OPTIONS)
def send(job_id: str, event: str, text: str, as_json: bool, url: str, api_key: str | None) -> None:
    """Send an event to a job whose handler calls ctx.wait_for(EVENT).

    JSON is the event's data: the value itself, @FILE, or - for stdin. The event is stored until the
    handler waits for it. Each call sends a new event.

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
        out().print(f"sent {plain(event)} to {plain(job_id)}", soft_wrap=True)


@click.command()
@click.argument("job_ids", metavar="[ID]...", nargs=-1, shell_complete=complete_jobs)
@click.option("--failed", "state", flag_value="failed", help="All failed jobs (default).")
@click.option("--cancelled", "state", flag_value="cancelled", help="All cancelled jobs.")
@click.option("--kind", shell_complete=complete_kinds, help="All jobs of this kind.")
@click.option("--queue", shell_complete=complete_queues, help="All jobs of this queue.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="NAME=VALUE",
    help="All jobs with this label; repeat it to require several.",
)
@click.option(
    "--since",
    callback=read_since,
    metavar="TIME",
    help="All jobs created in the last 1d, since yesterday, or since 2030-01-31T09:00:00Z.",
)
@click.option("--yes", is_flag=True, help="Resume without confirmation.")
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
    """Resume failed or cancelled jobs: by id, or all that match the options.

    A job resumes from its last checkpoint, with the same id and a full set of attempts. With
    options, the command counts the jobs and asks for confirmation. Jobs that succeeded or are not
    finished do not change.

    \b
    Examples:
        coatcheck jobs resume 01JD0Z3N6V8Q2T4W6Y8A0C2E4G
        coatcheck jobs resume --failed --kind report --since yesterday
        coatcheck jobs resume --cancelled --label customer=17 --since 1d --yes
    """
    which = job_query(labels=label_dict(labels), since=since, **filters)
    if bool(job_ids) == bool(which):
        raise click.UsageError("give either job ids or a filter: --failed, --kind, --since …")
    with Api(url, api_key) as api:
        if job_ids:
            for_each(job_ids, api.resume_job, _describe_resumed, as_json)
        else:
            _resume_all(api, which, yes=yes, as_json=as_json)


def _describe_resumed(job: Json) -> str:
    if job["finished_at"] is not None:
        return f"was already {job['state']}"
    return f"is {job['state']}" + (" (resumed)" if job["reason"] == "resumed" else "")


def _resume_all(api: Api, which: JobQuery, *, yes: bool, as_json: bool) -> None:
    found = api.resume_all(dry_run=True, **which)
    state = which.get("state", "failed")
    if found and not yes and not click.confirm(f"Resume {found} {state} job(s)?", err=True):
        say("No job was resumed.")
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
    help="The first step to run again: its number in `coatcheck jobs steps`, or its name.",
)
@click.option(
    "--input",
    "text",
    metavar="JSON",
    help="A new input: JSON, @FILE, or - for stdin.",
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
    """Submit a new job that starts from a step of another, and print its id.

    The new job has the same kind, and the same input unless you give another. Steps before that
    one are copied and do not run again.

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
        say(f"Follow it:  coatcheck watch {job['id']}{address_hint(url)}")
