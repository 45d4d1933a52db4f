"""The `coatcheck` command."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from coatcheck.app import App, load_app
from coatcheck.cli.backup import run_backup
from coatcheck.cli.demo import run_demo
from coatcheck.cli.listen import listen, url_of
from coatcheck.cli.parent import die_with_parent
from coatcheck.cli.running import api_process, run_process, single_process, worker_process
from coatcheck.cli.supervisor import EXIT_CONFIGURATION, EXIT_TEMPORARY, Child, Supervisor
from coatcheck.errors import CoatcheckError, ConfigurationError, StoreUnavailable
from coatcheck.logs import configure_logging
from coatcheck.settings import PREFIX, Settings, load_settings
from coatcheck.store.open import place_of, store_for

F = TypeVar("F", bound=Callable[..., Any])

SETTING_OPTIONS = (
    click.option("--database", metavar="URL", help="Where jobs live, such as sqlite:///jobs.db."),
    click.option("--config", metavar="FILE", help="A TOML file with settings."),
)
WORKER_OPTIONS = (
    click.option("--concurrency", type=int, help="Jobs run at once (8 per core)."),
    click.option("--supervisor-pipe", type=int, hidden=True),
)


def options(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Add several options to a command."""

    def add(command: F) -> F:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return add


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
        curl -d '{"kind":"greet","input":"you"}' -H 'content-type: application/json' \\
             http://127.0.0.1:8080/v1/jobs

    Every setting is also an environment variable: COATCHECK_DATABASE, COATCHECK_LEASE_S, ...
    """


@cli.command()
@click.argument("app", metavar="MODULE:APP")
@click.option("--host", help="Address to listen on (127.0.0.1).")
@click.option("--port", type=int, help="Port to listen on (8080); 0 takes a free one.")
@options(*SETTING_OPTIONS, *WORKER_OPTIONS)
@click.option("--no-worker", is_flag=True, help="Only the API, as one plain process.")
@click.option("--in-process", is_flag=True, help="API and worker in one process.")
@click.option("--socket", "socket_fd", type=int, hidden=True)
def serve(
    app: str,
    no_worker: bool,
    in_process: bool,
    supervisor_pipe: int | None,
    socket_fd: int | None,
    **flags: Any,
) -> None:
    """Serve an app: the HTTP API and a worker, as two supervised processes.

    A handler that blocks, crashes or leaks takes down at most the worker, which is started again;
    the API goes on answering. Stop with Ctrl-C: running jobs get time to finish
    (COATCHECK_DRAIN_S), and what does not is given back to the queue.

    \b
    Examples:
        coatcheck serve tasks:app
        coatcheck serve shop/jobs.py:app --port 9000 --database sqlite:////var/lib/shop/jobs.db
        coatcheck serve tasks:app --no-worker        # and elsewhere: coatcheck worker tasks:app
    """
    settings = _begin(flags, supervisor_pipe)
    if socket_fd is not None:
        listening = socket.socket(fileno=socket_fd)
    else:
        listening = listen(settings.host, settings.port)
    if no_worker or in_process:
        loaded = _load(app)
        process = api_process if no_worker else single_process
        announce = _announcement(listening, settings)
        run_process(process(loaded, settings, listening, announce))
        return
    listening.set_inheritable(True)
    descriptor = listening.fileno()
    supervisor = Supervisor(
        [
            Child("api", ["serve", app, "--no-worker", "--socket", str(descriptor)], [descriptor]),
            Child("worker", ["worker", app]),
        ],
        environment={**os.environ, **_as_environment(settings)},
        drain_s=settings.drain_s,
    )
    sys.exit(supervisor.run())


@cli.command()
@click.argument("app", metavar="MODULE:APP")
@options(*SETTING_OPTIONS, *WORKER_OPTIONS)
def worker(app: str, supervisor_pipe: int | None, **flags: Any) -> None:
    """Run jobs of an app; no port is opened.

    Start as many as the machine carries, beside `coatcheck serve MODULE:APP --no-worker` or on
    their own. SIGTERM stops claiming, lets running jobs finish for COATCHECK_DRAIN_S seconds, and
    gives the rest back without consuming an attempt.
    """
    settings = _begin(flags, supervisor_pipe)
    run_process(worker_process(_load(app), settings))


@cli.command()
@options(*SETTING_OPTIONS)
def migrate(**flags: Any) -> None:
    """Bring the database to the schema of this release.

    Servers and workers do this at start; run it apart to do it before a deploy.
    """
    settings = _begin(flags, None)
    applied = asyncio.run(store_for(settings).migrate())
    for migration in applied:
        click.echo(f"applied {migration.number:03d} {migration.name}")
    click.echo("the database is up to date")


@cli.command()
@click.argument("destination", metavar="DEST", type=click.Path(path_type=Path))
@options(*SETTING_OPTIONS)
def backup(destination: Path, **flags: Any) -> None:
    """Copy the SQLite database to DEST while servers and workers go on.

    The copy is how everything stood at one moment. A server started on it runs every job that had
    not ended by then. DEST must not exist. For PostgreSQL use pg_dump.

    \b
    Example:
        coatcheck backup /backups/jobs-2030-01-31.db --database sqlite:////var/lib/shop/jobs.db
    """
    run_backup(_begin(flags, None), destination)


@cli.command()
@click.option("--once", is_flag=True, help="Exit when the jobs have ended, instead of staying up.")
@click.option("--port", type=int, default=None, help="Port to listen on (8080, or a free one).")
def demo(once: bool, port: int | None) -> None:
    """Start a server and put a real job through it, with live progress."""
    sys.exit(run_demo(once=once, port=port))


def main() -> None:
    """Run the command line; our own errors become one line and an exit code."""
    try:
        cli(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except StoreUnavailable as error:
        click.echo(f"coatcheck: {error}", err=True)
        sys.exit(EXIT_TEMPORARY)
    except CoatcheckError as error:
        click.echo(f"coatcheck: {error}", err=True)
        sys.exit(EXIT_CONFIGURATION)


def _begin(flags: dict[str, Any], supervisor_pipe: int | None) -> Settings:
    if supervisor_pipe is not None:
        die_with_parent(supervisor_pipe)
    settings = load_settings(flags)
    configure_logging(settings)
    return settings


def _load(reference: str) -> App:
    try:
        return load_app(reference)
    except CoatcheckError:
        raise
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        raise ConfigurationError(f"{reference} could not be imported (see above)") from error


def _announcement(listening: socket.socket, settings: Settings) -> Callable[[], None]:
    def announce() -> None:
        click.echo(f"Coatcheck listens on {url_of(listening)} (loopback only: there are no keys)")
        click.echo(f"Jobs are kept in {place_of(settings)}")
        sys.stdout.flush()

    return announce


def _as_environment(settings: Settings) -> dict[str, str]:
    values = dataclasses.asdict(settings)
    return {PREFIX + name.upper(): str(value) for name, value in values.items()}
