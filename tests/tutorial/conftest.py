"""One server for the whole tutorial."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coatcheck import Client
from coatcheck.testing import LiveServer, serve

TASKS = Path(__file__).with_name("tasks.py")


@pytest.fixture(scope="package")
def server() -> Iterator[LiveServer]:
    # The webhook file runs its receiver on loopback, which the egress policy denies by default.
    settings = {"COATCHECK_LEASE_S": "2", "COATCHECK_EGRESS_ALLOW": "127.0.0.1"}
    with serve(f"{TASKS}:app", settings) as server:
        yield server


@pytest.fixture
def client(server: LiveServer) -> Iterator[Client]:
    with server.client() as client:
        yield client
