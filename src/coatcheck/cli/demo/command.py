"""`coatcheck demo`: start a server and run a sample job through each surface."""

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

from coatcheck.cli.demo.surfaces import (
    DemoFailed,
    demo_command,
    demo_diagram,
    demo_graph,
    demo_model,
    demo_search,
    demo_slow_service,
    slow_service,
)
from coatcheck.cli.server.listen import listen
from coatcheck.client.client import Client, JobHandle
from coatcheck.errors import ConfigurationError
from coatcheck.surfaces.installed import installed_surfaces

ANNOUNCEMENT = "Coatcheck listens on "
LIMIT = 20_000_000
POLL_S = 0.1
DEFAULT_PORT = 8080
DEMOS = {
    "graphs": demo_graph,
    "ingest": demo_search,
    "render": demo_diagram,
    "tasks": demo_command,
    "proxy": demo_slow_service,
    "foreman": demo_model,
}


@click.command()
@click.option("--once", is_flag=True, help="Exit when the jobs are finished.")
@click.option("--port", type=int, default=None, help="The port to listen on (8080, or a free one).")
def demo(once: bool, port: int | None) -> None:
    """Start a server and run a sample job through each surface, with live progress.

    \b
    Examples:
        coatcheck demo
        coatcheck demo --once
    """
    sys.exit(run_demo(once=once, port=port))


def run_demo(*, once: bool, port: int | None) -> int:
    """Run the demo; return the exit code."""
    console = Console()
    console.print("[bold]Coatcheck[/bold]: submit slow work, get an id, fetch the result later.\n")
    with _config() as config, _server(port, config) as (process, url):
        console.print(
            f"The server runs at [bold]{url}[/bold]: an API process and a worker process."
        )
        succeeded = _run_all(console, url, with_service=config is not None)
        if once or not succeeded:
            return 0 if succeeded else 1
        console.print("\nThe server keeps running. Try, in another terminal:\n")
        console.print(f"  curl -i {url}/v1/jobs -H 'content-type: application/json' \\")
        console.print('       -d \'{"kind":"count_primes","input":20000000}\'\n', markup=False)
        console.print("Then GET the URL in the Location header. The cockpit shows all jobs:")
        console.print(f"[bold]{url}/ui[/bold]. Ctrl-C stops the server.")
        with contextlib.suppress(KeyboardInterrupt):
            return process.wait()
        return 0


def _run_all(console: Console, url: str, *, with_service: bool) -> bool:
    succeeded = [_run_job(console, url)]
    for name, missing in [*_surfaces(), *([("proxy", "")] if with_service else [])]:
        if missing:
            console.print(f"\n[yellow]{name} is not available[/yellow]: {missing}")
        elif name in DEMOS:
            succeeded.append(_run_surface(console, url, name))
    return all(succeeded)


def _surfaces() -> list[tuple[str, str]]:
    return [
        (found.name, f"{found.missing}; {found.advice}" if found.missing else "")
        for found in installed_surfaces()
    ]


def _run_surface(console: Console, url: str, name: str) -> bool:
    try:
        DEMOS[name](console, url)
    except (DemoFailed, httpx2.HTTPError) as error:
        console.print(f"[red]{name} failed[/red]: {error}")
        return False
    return True


def _run_job(console: Console, url: str) -> bool:
    with Client(url) as client:
        handle = client.submit("count_primes", LIMIT)
        console.print(f"\nPOST /v1/jobs  ->  202, job [bold]{handle.id}[/bold] is on disk")
        job = _watch(console, handle)
        if job["state"] != "succeeded":
            console.print(f"[red]the job is {job['state']}[/red]: {job['error']}")
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
    """Yield a config file with a proxy rule for a slow service.

    Yields None if COATCHECK_CONFIG is set or the proxy is not installed.
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
    """Return the default port, or 0 (any free port) if it is in use."""
    try:
        listen("127.0.0.1", DEFAULT_PORT).close()
    except ConfigurationError:
        return 0
    return DEFAULT_PORT


def _stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait()
