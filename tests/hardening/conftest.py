from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import COMMAND, Running, environment, running
from tests.hardening import app as served_app

APP = f"{Path(served_app.__file__)}:app"


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A real server that the tests share. No test may depend on another's requests."""
    folder = tmp_path_factory.mktemp("hardening")
    with running("serve", APP, "--port", "0", "--in-process", folder=folder) as server:
        server.stderr.wait_for("worker started")
        yield server


@contextlib.contextmanager
def running_after(setup: str, *arguments: str, folder: Path) -> Iterator[Running]:
    """Start a command in a folder, after a line of shell that sets what it inherits."""
    process = subprocess.Popen(
        ["sh", "-c", f'{setup}; exec "$0" "$@"', *COMMAND, *arguments],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    command = Running(process)
    try:
        yield command
    finally:
        command.stop()
        command.stdout.until_end()
        command.stderr.until_end()


@pytest.fixture
def url(server: Running) -> str:
    return server.url()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
