"""Commands on one job, and on several: each is dealt with whatever happens to the others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import click

from coatcheck.cli import exit_codes
from coatcheck.cli.api import ApiError, Json
from coatcheck.cli.options import complete_jobs
from coatcheck.cli.output.terminal import complain, out, plain, print_json

one_job = click.argument("job_id", metavar="ID", shell_complete=complete_jobs)
several_jobs = click.argument(
    "job_ids", metavar="ID...", nargs=-1, required=True, shell_complete=complete_jobs
)


def for_each(
    job_ids: Iterable[str], act: Callable[[str], Json], words: Callable[[Json], str], as_json: bool
) -> None:
    """Do something to each job, whatever happens to the others; the first failure is told by the
    exit code. JSON is one line a job.
    """
    exit_code = exit_codes.OK
    for job_id in job_ids:
        try:
            answer = act(job_id)
        except ApiError as error:
            exit_code = exit_code or error.exit_code
            complain(f"{job_id}: {error}")
            if error.exit_code in (exit_codes.UNREACHABLE, exit_codes.NOT_ALLOWED):
                break
            continue
        if as_json:
            print_json(answer)
        else:
            out().print(f"{plain(job_id)} {words(answer)}", soft_wrap=True)
    if exit_code:
        sys.exit(exit_code)
