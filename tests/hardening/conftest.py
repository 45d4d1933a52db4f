from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import Running, running
from tests.hardening import app as served_app

APP = f"{Path(served_app.__file__)}:app"


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A real server that the tests share; what one sends must not matter to the next."""
    folder = tmp_path_factory.mktemp("hardening")
    with running("serve", APP, "--port", "0", "--in-process", folder=folder) as server:
        server.stderr.wait_for("worker started")
        yield server


@pytest.fixture
def url(server: Running) -> str:
    return server.url()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
