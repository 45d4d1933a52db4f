"""The `coatcheck` command: its commands are modules of their own, this is where they meet."""

from __future__ import annotations

import errno
import os
import sys

import click

from coatcheck.cli import exits
from coatcheck.cli.api import ApiError
from coatcheck.cli.backup import backup
from coatcheck.cli.completion import COMPLETE_VARIABLE, PROGRAM, completion
from coatcheck.cli.demo import demo
from coatcheck.cli.doctor.command import doctor
from coatcheck.cli.execute import execute
from coatcheck.cli.jobs import jobs
from coatcheck.cli.keys import keys
from coatcheck.cli.kinds import kinds
from coatcheck.cli.queues import queues
from coatcheck.cli.render import render
from coatcheck.cli.reseal import reseal
from coatcheck.cli.schedules import schedules
from coatcheck.cli.serving import migrate, serve, worker
from coatcheck.cli.submit import submit
from coatcheck.cli.tenants import tenants
from coatcheck.cli.terminal import complain
from coatcheck.cli.watching import watch
from coatcheck.cli.webhooks import webhooks
from coatcheck.errors import CoatcheckError, StoreUnavailable


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="coatcheck")
def cli() -> None:
    """Hand in slow work, get a ticket, come back for the result.

    Start with a function in tasks.py:

    \b
        from coatcheck import App, Context
        app = App()

    \b
        @app.job
        async def greet(ctx: Context, name: str) -> str:
            return f"hello {name}"

    \b
    Then:
        coatcheck serve tasks:app
        coatcheck submit greet '"you"' --wait            # in another terminal

    \b
    Or from anywhere else:
        curl -d '{"kind":"greet","input":"you"}' -H 'content-type: application/json' \\
             http://127.0.0.1:8080/v1/jobs

    Every setting is also an environment variable: COATCHECK_DATABASE, COATCHECK_LEASE_S, ...
    `coatcheck doctor` says whether all is well.
    """


for command in (
    *(serve, worker, migrate, demo, doctor, backup, reseal),
    *(submit, watch, jobs, kinds, queues, schedules, webhooks),
    *(render, execute),
    *(keys, tenants),
    completion,
):
    cli.add_command(command)


def main() -> None:
    """Run the command line; our own errors become one line and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        # What a stream cannot carry is shown as an escape instead of ending the command.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = cli.main(prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE, standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        _abandon_stdout()
        sys.exit(exits.FAILED)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO):
            raise
        _abandon_stdout()
        complain(f"cannot write the output: {error.strerror}")
        sys.exit(exits.FAILED)
    except click.exceptions.Abort:
        sys.exit(exits.INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except ApiError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except StoreUnavailable as error:
        complain(str(error))
        sys.exit(exits.EXIT_TEMPORARY)
    except CoatcheckError as error:
        complain(str(error))
        sys.exit(exits.EXIT_CONFIGURATION)
    sys.exit(code if isinstance(code, int) else exits.OK)


def _abandon_stdout() -> None:
    """Have what is left of the output go nowhere: nobody can read it, and nobody should be told."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
