"""`coatcheck demo`: a server, one real job through each door it has, and a look at the progress."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from coatcheck.app import App
from coatcheck.cli.listen import listen
from coatcheck.client.client import Client, JobHandle
from coatcheck.errors import ConfigurationError
from coatcheck.worker.context import Context

ANNOUNCEMENT = "Coatcheck listens on "
LIMIT = 20_000_000
SEGMENT = 100_000
POLL_S = 0.1
USUAL_PORT = 8080

app = App()


@app.job(retries=1, timeout="5m")
def count_primes(ctx: Context, below: int) -> int:
    """Count the primes below a number, a segment at a time, saying how far it is."""
    small = _primes_up_to(math.isqrt(below) + 1)
    found = 0
    for start in range(0, below, SEGMENT):
        end = min(start + SEGMENT, below)
        composite = bytearray(end - start)
        for prime in small:
            first = max(prime * prime, (start + prime - 1) // prime * prime)
            composite[first - start :: prime] = b"\1" * len(range(first, end, prime))
        found += sum(1 for n in range(max(start, 2), end) if not composite[n - start])
        ctx.progress(end, below, f"{found:,} primes below {end:,}")
    return found


def _primes_up_to(limit: int) -> list[int]:
    composite = bytearray(limit + 1)
    for n in range(2, math.isqrt(limit) + 1):
        if not composite[n]:
            composite[n * n :: n] = b"\1" * len(range(n * n, limit + 1, n))
    return [n for n in range(2, limit + 1) if not composite[n]]


@click.command()
@click.option("--once", is_flag=True, help="Exit when the jobs have ended, instead of staying up.")
@click.option("--port", type=int, default=None, help="Port to listen on (8080, or a free one).")
def demo(once: bool, port: int | None) -> None:
    """Start a server and put a real job through it, with live progress.

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
    with _server(port) as (process, url):
        console.print(f"The server is up at [bold]{url}[/bold]: an API and a worker process.")
        succeeded = _show_job(console, url)
        if once or not succeeded:
            return 0 if succeeded else 1
        console.print("\nIt stays up. Try, in another terminal:\n")
        console.print(f"  curl -i {url}/v1/jobs -H 'content-type: application/json' \\")
        console.print('       -d \'{"kind":"count_primes","input":20000000}\'\n', markup=False)
        console.print("and then GET what its Location header says. Ctrl-C stops the server.")
        with contextlib.suppress(KeyboardInterrupt):
            return process.wait()
        return 0


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
def _server(port: int | None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "coatcheck", "serve", "coatcheck.cli.demo:app"]
    process = subprocess.Popen(  # noqa: S603 - our own command line
        [*command, "--port", str(_free_port() if port is None else port)],
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
