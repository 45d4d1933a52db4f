"""`coatcheck demo`: a server, one real job through each door it has, and a look at the progress."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import httpx2
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from coatcheck.cli.demo.service import slow_service
from coatcheck.cli.demo.surfaces import (
    DemoFailed,
    show_command,
    show_diagram,
    show_graph,
    show_model,
    show_search,
    show_slow_service,
)
from coatcheck.cli.server.listen import listen
from coatcheck.client.client import Client, JobHandle
from coatcheck.errors import ConfigurationError
from coatcheck.surfaces.installed import installed_surfaces

ANNOUNCEMENT = "Coatcheck listens on "
LIMIT = 20_000_000
POLL_S = 0.1
USUAL_PORT = 8080
SHOWS = {
    "graphs": show_graph,
    "ingest": show_search,
    "render": show_diagram,
    "tasks": show_command,
    "proxy": show_slow_service,
    "foreman": show_model,
}


@click.command()
@click.option("--once", is_flag=True, help="Exit when the jobs have ended, instead of staying up.")
@click.option("--port", type=int, default=None, help="Port to listen on (8080, or a free one).")
def demo(once: bool, port: int | None) -> None:
    """Start a server and put a real job through each of its doors, with live progress.

    \b
    Examples:
        coatcheck demo
        coatcheck demo --once
    """
    sys.exit(run_demo(once=once, port=port))


def run_demo(*, once: bool, port: int | None) -> int:
    """Show the whole path; return the exit code."""
    console = Console()
    console.print("[bold]Coatcheck[/bold]: hand in slow work, get a ticket, come back for it.\n")
    with _config() as config, _server(port, config) as (process, url):
        console.print(f"The server is up at [bold]{url}[/bold]: an API and a worker process.")
        succeeded = _show_all(console, url, with_service=config is not None)
        if once or not succeeded:
            return 0 if succeeded else 1
        console.print("\nIt stays up. Try, in another terminal:\n")
        console.print(f"  curl -i {url}/v1/jobs -H 'content-type: application/json' \\")
        console.print('       -d \'{"kind":"count_primes","input":20000000}\'\n', markup=False)
        console.print("and then GET what its Location header says. In a browser the cockpit shows")
        console.print(f"it all: [bold]{url}/ui[/bold]. Ctrl-C stops the server.")
        with contextlib.suppress(KeyboardInterrupt):
            return process.wait()
        return 0


def _show_all(console: Console, url: str, *, with_service: bool) -> bool:
    shown = [_show_job(console, url)]
    for name, missing in [*_surfaces(), *([("proxy", "")] if with_service else [])]:
        if missing:
            console.print(f"\n[yellow]{name} is left out[/yellow]: {missing}")
        elif name in SHOWS:
            shown.append(_show_surface(console, url, name))
    return all(shown)


def _surfaces() -> list[tuple[str, str]]:
    return [
        (found.name, f"{found.missing}; {found.advice}" if found.missing else "")
        for found in installed_surfaces()
    ]


def _show_surface(console: Console, url: str, name: str) -> bool:
    try:
        SHOWS[name](console, url)
    except (DemoFailed, httpx2.HTTPError) as error:
        console.print(f"[red]{name} failed[/red]: {error}")
        return False
    return True


def _show_job(console: Console, url: str) -> bool:
    with Client(url) as client:
        handle = client.submit("count_primes", LIMIT)
        console.print(f"\nPOST /v1/jobs  ->  202, job [bold]{handle.id}[/bold] is on disk")
        job = _watch(console, handle)
        if job["state"] != "succeeded":
            console.print(f"[red]the job ended as {job['state']}[/red]: {job['error']}")
            return False
        console.print(
            f"GET /v1/jobs/{handle.id}  ->  {job['state']}: "
            f"there are {job['result']:,} primes below {LIMIT:,}"
        )
        return True


def _watch(console: Console, handle: JobHandle) -> dict[str, Any]:
    columns = (
        TextColumn("{task.description:<9}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[message]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("queued", total=1, message="")
        while True:
            job = handle.refresh()
            progress = job["progress"] or {"done": 0, "total": 1, "message": ""}
            bar.update(
                task,
                description=job["state"],
                completed=progress["done"],
                total=progress["total"],
                message=progress["message"],
            )
            if job["finished_at"] is not None:
                return job
            time.sleep(POLL_S)


@contextlib.contextmanager
def _config() -> Iterator[Path | None]:
    """Give a config file with a service to stand before; None where there is one already, or the
    proxy is not installed.
    """
    if "COATCHECK_CONFIG" in os.environ or find_spec("aiohttp") is None:
        yield None
        return
    with slow_service() as config:
        yield config


@contextlib.contextmanager
def _server(port: int | None, config: Path | None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "coatcheck", "serve", "coatcheck.cli.demo.app:app"]
    process = subprocess.Popen(  # noqa: S603 - our own command line
        [
            *(*command, "--port", str(_free_port() if port is None else port)),
            *(() if config is None else ("--config", str(config))),
        ],
        env={"COATCHECK_LOG_LEVEL": "warning", **os.environ},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith(ANNOUNCEMENT):
                    yield process, line.removeprefix(ANNOUNCEMENT).split()[0]
                    return
            sys.exit(process.wait() or 1)
        finally:
            _stop(process)


def _free_port() -> int:
    """Return the usual port, or 0 (any) where somebody has it."""
    try:
        listen("127.0.0.1", USUAL_PORT).close()
    except ConfigurationError:
        return 0
    return USUAL_PORT


def _stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait()
