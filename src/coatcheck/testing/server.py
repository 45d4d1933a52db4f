"""A real server for tests: `coatcheck serve` in its own process, on a temporary database.

    with serve("tasks.py:app") as server, server.client() as client:
        assert client.run("greet", "ada") == "hello ada"

The server listens on a free port of the loopback address. On exit from the context, it stops and
its files are deleted.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from coatcheck.client.client import Client

# The first line that `coatcheck serve` prints ends with its address.
ANNOUNCEMENT = "Coatcheck listens on "
STOP_TIMEOUT_S = 30.0


class LiveServer:
    """A running server: an API process and a worker process under one supervisor."""

    def __init__(self, url: str) -> None:
        self.url = url

    def client(self) -> Client:
        """Return a client for this server."""
        return Client(self.url)

    def kill_worker(self, job_id: str) -> int:
        """Kill the worker process that runs a job with SIGKILL, and return its process id."""
        with self.client() as client:
            for worker in client.workers():
                if any(job["id"] == job_id for job in worker["jobs"]):
                    os.kill(worker["pid"], signal.SIGKILL)
                    return int(worker["pid"])
        raise LookupError(f"no worker runs job {job_id}")


@contextmanager
def serve(app: str, settings: Mapping[str, str] | None = None) -> Iterator[LiveServer]:
    """Serve an app, given as `module:app` or `path.py:app`.

    `settings` are environment variables such as `COATCHECK_LEASE_S`.
    """
    with tempfile.TemporaryDirectory(prefix="coatcheck-") as folder:
        database = f"sqlite:///{Path(folder, 'coatcheck.db')}"
        environment = {**os.environ, "COATCHECK_DATABASE": database, **(settings or {})}
        command = [sys.executable, "-m", "coatcheck", "serve", app, "--port", "0"]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            yield LiveServer(_read_address(process))
        finally:
            _stop(process)


def _read_address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(ANNOUNCEMENT):
            return line.removeprefix(ANNOUNCEMENT).split()[0]
    raise RuntimeError("the server did not start; its log says why")


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
