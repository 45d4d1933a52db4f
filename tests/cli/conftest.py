from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from coatcheck import Client
from tests.cli import tasks
from tests.cli.processes import Running, running
from tests.cli.shell import Shell

APP = f"{Path(tasks.__file__)}:app"


@pytest.fixture
def app_reference() -> str:
    """The app reference that `coatcheck serve` gets in these tests."""
    return APP


@pytest.fixture(scope="package")  # no longer: also a server that nobody asks is at work
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that the tests share."""
    folder = tmp_path_factory.mktemp("server")
    with running("serve", APP, "--port", "0", folder=folder) as server:
        server.stderr.wait_for("worker started")
        yield server


@pytest.fixture(scope="package")  # no longer: also a server that nobody asks is at work
def plain_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A shared server without an app: it serves the installed surfaces."""
    with running("serve", "--port", "0", folder=tmp_path_factory.mktemp("plain")) as server:
        server.stderr.wait_for("worker started")
        yield server


@pytest.fixture
def shell(server: Running, tmp_path: Path) -> Shell:
    """A shell in its own folder, whose commands use the shared server."""
    return Shell(server.url(), tmp_path)


@pytest.fixture
def client(server: Running) -> Iterator[Client]:
    with Client(server.url()) as client:
        yield client


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A named pipe: a `gated` job continues when something is written to it."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path
