"""`coatcheck serve` as a user starts it: a supervisor, an API process and a worker process."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.environments import REQUIREMENTS, ROOT, python_for

STOP_S = 30


@dataclass(frozen=True)
class Server:
    """A running server."""

    port: int
    pid: int
    database: Path

    def processes(self) -> dict[int, str]:
        """Return the role of each process by pid."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return {pid: _role(pid) for pid in (self.pid, *map(int, children))}


@contextlib.contextmanager
def serving(under: Path, *flags: str, app: str | None = "benchmarks.jobs:app") -> Iterator[Server]:
    """Serve an app or the built-in surfaces on a free port, with a temporary database."""
    folder = Path(tempfile.mkdtemp(prefix="serve-", dir=under))
    database = folder / "coatcheck.db"
    environment = {
        **os.environ,
        "COATCHECK_LOG_LEVEL": "error",
        "COATCHECK_DRAIN_S": "1",
        "COATCHECK_GRACE_S": "1",
    }
    command = [sys.executable, "-m", "coatcheck", "serve", *([app] if app else []), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--database", f"sqlite:///{database}", *flags],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Server(_port(process), process.pid, database)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()  # its children notice and exit
            process.wait()
        assert process.stdout is not None
        process.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def serving_fastapi(under: Path) -> Iterator[Server]:
    """Serve the hand-made jobs table of peers/fastapi_app.py in its own environment."""
    folder = Path(tempfile.mkdtemp(prefix="fastapi-", dir=under))
    database = folder / "jobs.db"
    command = [str(python_for("fastapi")), str(REQUIREMENTS / "fastapi_app.py"), str(database)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield Server(_port(process), process.pid, database)
    finally:
        process.terminate()
        process.wait(timeout=STOP_S)
        assert process.stdout is not None
        process.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time a process has used, from /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _port(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
            return int(found[1])
    raise RuntimeError(f"coatcheck serve ended before it listened ({process.wait()})")


def _role(pid: int) -> str:
    arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    if b"worker" in arguments:
        return "worker"
    return "API" if b"--no-worker" in arguments else "supervisor"
