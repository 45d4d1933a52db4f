"""The `coatcheck` command and its table of subcommands.

A subcommand's module is imported when it is called: imports take most of a short command's time.
"""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module

import click

from coatcheck.cli import exit_codes
from coatcheck.cli.commands.completion import COMPLETE_VARIABLE, PROGRAM
from coatcheck.cli.exit_codes import ApiError
from coatcheck.cli.output.terminal import complain
from coatcheck.errors import CoatcheckError, StoreUnavailable

# Command -> module and attribute.
COMMANDS = {
    "serve": ("commands.serve", "serve"),
    "worker": ("commands.serve", "worker"),
    "migrate": ("commands.serve", "migrate"),
    "demo": ("demo.command", "demo"),
    "doctor": ("doctor.command", "doctor"),
    "backup": ("commands.backup", "backup"),
    "reseal": ("commands.rekey", "reseal"),
    "submit": ("commands.submit", "submit"),
    "watch": ("commands.watch", "watch"),
    "jobs": ("commands.jobs", "jobs"),
    "kinds": ("commands.kinds", "kinds"),
    "queues": ("commands.queues", "queues"),
    "schedules": ("commands.schedules", "schedules"),
    "webhooks": ("commands.webhooks", "webhooks"),
    "render": ("commands.render", "render"),
    "graph": ("commands.graph", "graph"),
    "ingest": ("commands.ingest", "ingest"),
    "search": ("commands.search", "search"),
    "fetch-model": ("commands.fetch_model", "fetch_model"),
    "exec": ("commands.execute", "execute"),
    "audit": ("commands.audit", "audit"),
    "keys": ("commands.keys", "keys"),
    "tenants": ("commands.tenants", "tenants"),
    "mcp": ("commands.mcp", "mcp"),
    "completion": ("commands.completion", "completion"),
}


class Commands(click.Group):
    """A group that imports its commands lazily."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(f"coatcheck.cli.{module}"), name)
        return command


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="coatcheck")
def cli() -> None:
    """Run slow work as durable jobs: submit, get an id, fetch the result later.

    Write a function in tasks.py:

    \b
        from coatcheck import App, Context
        app = App()

    \b
        @app.job
        async def greet(ctx: Context, name: str) -> str:
            return f"hello {name}"

    \b
    Start a server and submit a job:
        coatcheck serve tasks:app
        coatcheck submit greet '"you"' --wait            # in another terminal

    \b
    Or submit over HTTP:
        curl -d '{"kind":"greet","input":"you"}' -H 'content-type: application/json' \\
             http://127.0.0.1:8080/v1/jobs

    Every setting is also an environment variable: COATCHECK_DATABASE, COATCHECK_LEASE_S, ...
    `coatcheck doctor` checks the installation.
    """


def main() -> None:
    """Run the command line; print expected errors as one line and exit with their code."""
    for stream in (sys.stdout, sys.stderr):
        # Characters that a stream cannot encode are escaped instead of raising.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = cli.main(prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE, standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        _abandon_stdout()
        sys.exit(exit_codes.FAILED)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO):
            raise
        _abandon_stdout()
        complain(f"cannot write the output: {error.strerror}")
        sys.exit(exit_codes.FAILED)
    except click.exceptions.Abort:
        sys.exit(exit_codes.INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except ApiError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except StoreUnavailable as error:
        complain(str(error))
        sys.exit(exit_codes.EXIT_TEMPORARY)
    except CoatcheckError as error:
        complain(str(error))
        sys.exit(exit_codes.EXIT_CONFIGURATION)
    sys.exit(code if isinstance(code, int) else exit_codes.OK)


def _abandon_stdout() -> None:
    """Redirect stdout to /dev/null, so that the interpreter's final flush does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
