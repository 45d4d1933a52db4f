"""Shared set-up: assertion rewriting for the shipped suites, and a real PostgreSQL server per test
process.

`COATCHECK_TEST_POSTGRES=<dsn>` runs the same tests against an existing server.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.distribution import BySetUp
from tests.postgres.schemas import Schemas
from tests.postgres.server import TrialServer

pytest.register_assert_rewrite("coatcheck.testing")

# Background processes and their children ignore SIGINT, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Objects created during collection (modules, classes, tests) live forever: exclude them from
# garbage collection.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> BySetUp:
    return BySetUp(config, log)


@pytest.fixture(scope="session")
def dsn() -> Iterator[str]:
    given = os.environ.get("COATCHECK_TEST_POSTGRES")
    if given:
        yield given
        return
    with TrialServer() as server:
        yield server.dsn


@pytest.fixture(scope="session")
def schemas(dsn: str) -> Iterator[Schemas]:
    """Migrated schemas, for tests that need one and do not care how it is made."""
    with closing(Schemas(dsn)) as schemas:
        yield schemas
