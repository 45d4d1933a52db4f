from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from coatcheck import Client
from tests.cli.processes import Running, running
from tests.client import tasks
from tests.client.both import FLAVOURS, Connect, FakeTime, Flavour, connected, scripted
from tests.client.script import URL, Play, Script

ARGUMENTS = ("serve", f"{Path(tasks.__file__)}:app", "--port", "0")


@pytest.fixture(scope="package")  # no longer: also a server that nobody asks is at work
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that the tests share."""
    with running(*ARGUMENTS, folder=tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Running]:
    """A server for a test that damages it."""
    with running(*ARGUMENTS, folder=tmp_path) as server:
        yield server


@pytest.fixture(params=FLAVOURS)
def flavour(request: pytest.FixtureRequest) -> Flavour:
    """The client under test; every test runs with both."""
    return cast("Flavour", request.param)


@pytest.fixture
def connect(flavour: Flavour) -> Iterator[Connect]:
    with contextlib.ExitStack() as stack:
        yield lambda url, **options: stack.enter_context(connected(flavour, url, **options))


@pytest.fixture
def client(server: Running, connect: Connect) -> Client:
    return connect(server.url())


@pytest.fixture
def fake() -> FakeTime:
    return FakeTime()


@pytest.fixture
def play(flavour: Flavour, connect: Connect, fake: FakeTime) -> Play:
    """Connect to a scripted server, with a fake clock."""

    def play(script: Script, **options: Any) -> Client:
        return connect(URL, **scripted(flavour, script, fake), **options)

    return play


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A named pipe: opening one end blocks until the other is opened."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path
