"""For all tests: the assertions of the suites we ship explain themselves as ours do; and a real
PostgreSQL, one server for each test process that wants one.

`COATCHECK_TEST_POSTGRES=<dsn>` runs the same tests against a server that is there already.
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

# Who is started in the background ignores Ctrl-C, and so does what it starts; some tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What is made while tests are collected is there to stay: modules, classes, tests. Nobody looks
# through it for garbage, neither now nor during the tests.
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
