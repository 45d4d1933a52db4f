"""`coatcheck jobs`: list, show, explain, cancel, delete jobs."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import click

from coatcheck.cli import exit_codes
from coatcheck.cli.api import Api, Json, job_path, job_query
from coatcheck.cli.commands.job_actions import (
    for_each,
    fork,
    one_job,
    resume,
    send,
    several_jobs,
    steps,
)
from coatcheck.cli.commands.watch import print_outcome
from coatcheck.cli.options import (
    JSON_OPTION,
    SERVER_OPTIONS,
    address_hint,
    complete_kinds,
    complete_queues,
    label_dict,
    options,
)
from coatcheck.cli.output.job_pages import print_job, print_jobs
from coatcheck.cli.output.terminal import complain, dumps, out, plain, print_json, print_value, say
from coatcheck.cli.output.time_format import read_since
from coatcheck.model.state import State

LIMIT = 50


@click.group()
def jobs() -> None:
    """List, show, explain, cancel, resume, fork and delete jobs.

    \b
    Examples:
        coatcheck jobs list --state failed --since 1h
        coatcheck jobs show 01JD0Z3N6V8Q2T4W6Y8A0C2E4G
        coatcheck jobs explain 01JD0Z3N6V8Q2T4W6Y8A0C2E4G
        coatcheck jobs resume --failed --kind report --since yesterday
    """


for command in (steps, send, resume, fork):
    jobs.add_command(command)


@jobs.command("list")
@click.option(
    "--state", type=click.Choice([state.value for state in State]), help="Only jobs in this state."
)
@click.option("--kind", shell_complete=complete_kinds, help="Only jobs of this kind.")
@click.option("--queue", shell_complete=complete_queues, help="Only jobs of this queue.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="NAME=VALUE",
    help="Only jobs with this label; repeat it to require several.",
)
@click.option(
    "--since",
    callback=read_since,
    metavar="TIME",
    help="Only jobs created in the last 1h, since yesterday, or since 2030-01-31T09:00:00Z.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=LIMIT,
    help=f"The maximum number of jobs ({LIMIT}).",
)
@click.option("--all", "everything", is_flag=True, help="All jobs, regardless of --limit.")
@options(JSON_OPTION, *SERVER_OPTIONS)
def list_jobs(
    labels: tuple[str, ...],
    since: str | None,
    limit: int,
    everything: bool,
    as_json: bool,
    url: str,
    api_key: str | None,
    **filters: str | None,
) -> None:
    """List jobs, newest first.

    \b
    Examples:
        coatcheck jobs list
        coatcheck jobs list --state failed --since 1h
        coatcheck jobs list --kind report --label customer=17 --limit 5
        coatcheck jobs list --all --json | jq -r '.jobs[].id'
    """
    which = job_query(labels=label_dict(labels), since=since, **filters)
    with Api(url, api_key) as api:
        found = api.list_jobs(which, None if everything else limit)
        if as_json:
            _write_page(found)
            return
        listed = list(found)
    print_jobs([job for job, _ in listed])
    if listed and listed[-1][1] and sys.stdout.isatty():
        say(f"These are the newest {len(listed)} jobs; use --limit or --all for more.")


@jobs.command()
@one_job
@options(JSON_OPTION, *SERVER_OPTIONS)
def show(job_id: str, as_json: bool, url: str, api_key: str | None) -> None:
    """Show a job with its steps and its result or error.

    \b
    Examples:
        coatcheck jobs show 01JD0Z3N6V8Q2T4W6Y8A0C2E4G
        coatcheck jobs show 01JD0Z3N6V8Q2T4W6Y8A0C2E4G --json | jq .state
    """
    with Api(url, api_key) as api:
        job = api.read_job(job_id)
        steps_ = [] if as_json else api.read(f"{job_path(job_id)}/steps", "steps")["steps"]
    if as_json:
        print_json(job)
    else:
        print_job(job, steps_)


@jobs.command()
@one_job
@options(JSON_OPTION, *SERVER_OPTIONS)
def explain(job_id: str, as_json: bool, url: str, api_key: str | None) -> None:
    """Explain why a job is not finished.

    Names the worker that runs it, a pause, a delay, the jobs ahead of it, or that no worker has its
    kind.

    \b
    Examples:
        coatcheck jobs explain 01JD0Z3N6V8Q2T4W6Y8A0C2E4G
    """
    with Api(url, api_key) as api:
        job = api.read_job(job_id, explain=True)
    reasons = job.get("explain", [])
    if as_json:
        print_json({"id": job["id"], "state": job["state"], "explain": reasons})
        return
    out().print(f"job {plain(job['id'])} is {job['state']}", soft_wrap=True)
    for reason in reasons:
        out().print(f"  {plain(reason['code'])}: {plain(reason['message'])}", soft_wrap=True)


@jobs.command()
@one_job
@options(JSON_OPTION, *SERVER_OPTIONS)
def result(job_id: str, as_json: bool, url: str, api_key: str | None) -> None:
    """Print a job's result.

    Does not wait; use `coatcheck watch ID` for that. The exit code is 6 if the job is not finished,
    1 if it failed, 4 if it was cancelled.

    \b
    Examples:
        coatcheck jobs result 01JD0Z3N6V8Q2T4W6Y8A0C2E4G
        coatcheck jobs result 01JD0Z3N6V8Q2T4W6Y8A0C2E4G | jq .pages
    """
    with Api(url, api_key) as api:
        job = api.read_job(job_id)
    if job["state"] == "succeeded":
        print_value(job["result"], raw=as_json)
    elif job["finished_at"] is not None:
        sys.exit(print_outcome(job, raw=as_json))
    else:
        hint = f"coatcheck watch {job_id}{address_hint(url)}"
        complain(f"job {job_id} is {job['state']} and has no result yet; wait for it with: {hint}")
        sys.exit(exit_codes.TIMED_OUT)


@jobs.command()
@several_jobs
@options(JSON_OPTION, *SERVER_OPTIONS)
def cancel(job_ids: tuple[str, ...], as_json: bool, url: str, api_key: str | None) -> None:
    """Cancel jobs.

    A queued or waiting job is cancelled immediately, a running job when its handler stops. Finished
    jobs do not change.

    \b
    Examples:
        coatcheck jobs cancel 01JD0Z3N6V8Q2T4W6Y8A0C2E4G
        coatcheck jobs list --state queued --json --all | jq -r '.jobs[].id' |
          xargs coatcheck jobs cancel
    """

    def describe(job: Json) -> str:
        if job["state"] == "cancelled":
            return "cancelled"
        if job["finished_at"] is not None:
            return f"was already {job['state']}"
        return "is being cancelled"

    with Api(url, api_key) as api:
        for_each(job_ids, api.cancel, describe, as_json)


@jobs.command()
@several_jobs
@options(JSON_OPTION, *SERVER_OPTIONS)
def delete(job_ids: tuple[str, ...], as_json: bool, url: str, api_key: str | None) -> None:
    """Delete finished jobs with their inputs, results and logs.

    Cancel a job first if it is not finished.

    \b
    Examples:
        coatcheck jobs delete 01JD0Z3N6V8Q2T4W6Y8A0C2E4G
    """
    with Api(url, api_key) as api:
        for_each(job_ids, api.delete, lambda _: "deleted", as_json)


def _write_page(found: Iterable[tuple[dict[str, Any], bool]]) -> None:
    """Stream jobs as one JSON document; write nothing before the first response."""
    before, more = '{"jobs":[', False
    for job, more_follow in found:
        sys.stdout.write(before + dumps(job))
        before, more = ",", more_follow
    opening = "" if before == "," else before
    sys.stdout.write(f'{opening}],"more":{dumps(more)}}}\n')
