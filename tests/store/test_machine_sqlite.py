import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.testing.machine import StoreMachine
from tests.store.template import migrated

# Some ten thousand calls: half a minute, or several on a busy machine.
pytestmark = pytest.mark.timeout(600)


class SQLiteMachine(StoreMachine):
    def new_store(self) -> SQLiteStore:
        self.folder = Path(tempfile.mkdtemp(prefix="coatcheck-machine-"))
        return SQLiteStore(migrated(self.folder / "jobs.db"), poll_s=60)

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            shutil.rmtree(self.folder)


TestSQLiteMachine = SQLiteMachine.TestCase
TestSQLiteMachine.settings = settings(
    max_examples=60,
    stateful_step_count=80,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
