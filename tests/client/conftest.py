from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from coatcheck import Client
from tests.cli.processes import Running, running
from tests.client import tasks

ARGUMENTS = ("serve", f"{Path(tasks.__file__)}:app", "--port", "0")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that the tests share, as its users would."""
    with running(*ARGUMENTS, folder=tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Running]:
    """A server for a test that does it harm."""
    with running(*ARGUMENTS, folder=tmp_path) as server:
        yield server


@pytest.fixture
def client(server: Running) -> Iterator[Client]:
    with Client(server.url()) as client:
        yield client


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A named pipe: who opens one end waits until somebody opens the other."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path
