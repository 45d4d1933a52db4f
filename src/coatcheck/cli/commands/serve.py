"""`coatcheck serve`, `coatcheck worker` and `coatcheck migrate`.

Only the API and worker processes import what they need (processes.py). The supervisor stays small
and starts them sooner.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import sys
from typing import Any

import click

from coatcheck.cli.options import SETTING_OPTIONS, WORKER_OPTIONS, options
from coatcheck.cli.server.api_probe import ApiProbe
from coatcheck.cli.server.listen import listen
from coatcheck.cli.server.supervisor import ChildProcess, Supervisor, die_with_parent
from coatcheck.http.auth.loopback import check_bind_address, is_loopback
from coatcheck.logs import configure_logging
from coatcheck.settings import PREFIX, Settings, load_settings


@click.command()
@click.argument("app", metavar="[MODULE:APP]", required=False)
@click.option("--host", help="The address to listen on (127.0.0.1).")
@click.option("--port", type=int, help="The port to listen on (8080); 0 picks a free one.")
@options(*SETTING_OPTIONS, *WORKER_OPTIONS)
@click.option("--no-worker", is_flag=True, help="Run only the API, in one process.")
@click.option("--in-process", is_flag=True, help="Run the API and the worker in one process.")
@click.option("--socket", "socket_fd", type=int, hidden=True)
def serve(
    app: str | None,
    no_worker: bool,
    in_process: bool,
    supervisor_pipe: int | None,
    socket_fd: int | None,
    **flags: Any,
) -> None:
    """Run the HTTP API and a worker for an app, as two supervised processes.

    Without an app, serves the installed surfaces: diagrams, commands, documents and those of other
    packages. [[proxy]] rules in the config file forward requests to other services.

    A handler that blocks, crashes or leaks memory affects only the worker process, which is
    restarted; the API keeps responding. Stop with Ctrl-C: running jobs have COATCHECK_DRAIN_S
    seconds to finish, then they are released to the queue.

    \b
    Examples:
        coatcheck serve tasks:app
        coatcheck serve shop/jobs.py:app --port 9000 --database sqlite:////var/lib/shop/jobs.db
        coatcheck serve tasks:app --no-worker        # run `coatcheck worker tasks:app` elsewhere
        coatcheck serve                              # the built-in surfaces
        coatcheck serve --config proxy.toml          # with proxy rules
    """
    settings = _start(flags, supervisor_pipe)
    if socket_fd is not None:
        listening = socket.socket(fileno=socket_fd)
    else:
        check_bind_address(
            settings.host, has_keys=_has_keys(settings), everywhere=settings.is_production
        )
        listening = listen(settings.host, settings.port)
    if no_worker or in_process:
        from coatcheck.cli.server.processes import serve_here  # noqa: PLC0415 - see above

        supervised = socket_fd is not None
        serve_here(app, settings, listening, with_worker=in_process, has_worker=supervised)
        return
    named = [] if app is None else [app]
    listening.set_inheritable(True)
    descriptor = listening.fileno()
    supervisor = Supervisor(
        [
            ChildProcess(
                "api",
                ["serve", *named, "--no-worker", "--socket", str(descriptor)],
                [descriptor],
                ApiProbe(listening, settings.hang_s) if settings.hang_s else None,
            ),
            ChildProcess("worker", ["worker", *named]),
        ],
        environment={**os.environ, **_as_environment(settings)},
        drain_s=settings.drain_s,
    )
    sys.exit(supervisor.run())


@click.command()
@click.argument("app", metavar="[MODULE:APP]", required=False)
@options(*SETTING_OPTIONS, *WORKER_OPTIONS)
def worker(app: str | None, supervisor_pipe: int | None, **flags: Any) -> None:
    """Run a worker for an app, or for the installed surfaces. Opens no port.

    Start as many workers as you need, beside `coatcheck serve MODULE:APP --no-worker` or on other
    machines. On SIGTERM a worker stops claiming, lets running jobs finish for COATCHECK_DRAIN_S
    seconds, and releases the rest without using up an attempt.

    \b
    Examples:
        coatcheck worker tasks:app
        coatcheck worker tasks:app --concurrency 4 --database postgresql://jobs@db.example/jobs
    """
    from coatcheck.cli.server.processes import work_here  # noqa: PLC0415 - see above

    work_here(app, _start(flags, supervisor_pipe))


@click.command()
@options(*SETTING_OPTIONS)
def migrate(**flags: Any) -> None:
    """Migrate the database to the schema of this release.

    Servers and workers migrate at startup. Run this command to migrate before a deploy.

    \b
    Examples:
        coatcheck migrate
        coatcheck migrate --database sqlite:////var/lib/shop/jobs.db
    """
    from coatcheck.store.open import store_for  # noqa: PLC0415 - see above

    settings = _start(flags, None)
    applied = asyncio.run(store_for(settings).migrate())
    for migration in applied:
        click.echo(f"applied {migration.number:03d} {migration.name}")
    click.echo("the database is up to date")


def _start(flags: dict[str, Any], supervisor_pipe: int | None) -> Settings:
    if supervisor_pipe is not None:
        die_with_parent(supervisor_pipe)
    settings = load_settings(flags)
    configure_logging(settings)
    # The sandbox reads it there, in this process and in child processes.
    os.environ[f"{PREFIX}SANDBOX_UIDS"] = settings.sandbox_uids
    return settings


def _has_keys(settings: Settings) -> bool:
    """Tell whether the database has API keys; skip the lookup if it does not matter."""
    if is_loopback(settings.host) and not settings.is_production:
        return False
    from coatcheck.store.open import store_for  # noqa: PLC0415 - see above

    async def read() -> bool:
        store = store_for(settings)
        await store.open()
        try:
            return (await store.access.get_state()).has_keys
        finally:
            await store.close()

    return asyncio.run(read())


def _as_environment(settings: Settings) -> dict[str, str]:
    values = dataclasses.asdict(settings)
    return {PREFIX + name.upper(): str(value) for name, value in values.items()}
