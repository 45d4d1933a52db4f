"""Fixtures: asyncio only, as servers run; some tests use server processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .gate import Gate
from .server import Server, serving


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.close()


@pytest.fixture(scope="module")
def shared_gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, shared_gate: Gate) -> Iterator[Server]:
    """A server of the FastAPI app, for all tests of a module that leave it as it is."""
    folder: Path = tmp_path_factory.mktemp("served")
    with serving("tests.middleware.apps.fastapi_app:app", folder, shared_gate) as server:
        yield server
