"""Real uvicorn processes that serve an app of the tests."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2

from .gate import PORT, Gate

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0


class Server:
    """A server process that can be killed and restarted with the same port and database."""

    def __init__(self, app: str, folder: Path, gate: Gate, **settings: str) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._command = [sys.executable, "-m", "uvicorn", app, "--log-level", "warning"]
        self.folder = folder
        self._environment = {
            **{name: value for name, value in os.environ.items() if "COATCHECK" not in name},
            "PYTHONPATH": f"{ROOT}:{folder}",
            "COATCHECK_DATABASE": f"sqlite:///{folder}/jobs.db",
            "COATCHECK_DRAIN_S": "1",
            "COATCHECK_GRACE_S": "1",
            PORT: str(gate.port),
            **settings,
        }
        self._process: subprocess.Popen[bytes] | None = None
        # A new connection for each call: the server may have been killed in between.
        limits = httpx2.Limits(max_keepalive_connections=0)
        self._client = httpx2.Client(timeout=PATIENCE_S, limits=limits)

    def start(self, ready: str = "/pid") -> None:
        """Start it, and wait until it answers."""
        descriptor = self._listening.fileno()
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, "--fd", str(descriptor)],
                cwd=self.folder,
                env=self._environment,
                pass_fds=[descriptor],
                stderr=log,
                stdout=log,
            )
        # The socket listens already: the answer comes when the server does.
        answer = self.ask("GET", ready)
        assert ready != "/pid" or answer.json() == self._process.pid, self.log

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        return (self.folder / "server.log").read_text()

    def kill(self) -> None:
        """Kill it."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def stop(self) -> None:
        """Stop it with SIGTERM."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE_S)

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()
        self._client.close()
        self._listening.close()

    def ask(self, method: str, path: str, **request: Any) -> httpx2.Response:
        """Make a call."""
        self._client.cookies.clear()  # each call is a separate caller
        return self._client.request(method, self.url + path, **request)


@contextlib.contextmanager
def serving(
    app: str, folder: Path, gate: Gate, ready: str = "/pid", **settings: str
) -> Iterator[Server]:
    """Run a server within the block."""
    server = Server(app, folder, gate, **settings)
    try:
        server.start(ready)
        yield server
    finally:
        server.close()
