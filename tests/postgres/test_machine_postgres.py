"""Both stores driven through the same random histories, and compared at every step."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings

from coatcheck.errors import CoatcheckError
from coatcheck.store.base import Store
from coatcheck.store.postgres.claims.cursor import SLOW_S, ClaimCursor
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.testing.machine import StoreMachine
from tests.postgres.schemas import Schemas
from tests.store.template import migrated
from tests.store_proxy import PARTS

# Some ten thousand calls: half a minute, or several on a busy machine.
pytestmark = pytest.mark.timeout(600)


class Mirrored:
    """Asks two stores the same and takes no answer in which they differ."""

    def __init__(self, first: Store, second: Store) -> None:
        self._stores = (first, second)

    def __getattr__(self, name: str) -> Any:
        if name in PARTS:
            return Mirrored(*(getattr(store, name) for store in self._stores))
        verb = name

        async def ask(store: Store, *arguments: Any, **options: Any) -> Any:
            try:
                return await getattr(store, verb)(*arguments, **options)
            except CoatcheckError as error:
                return error

        async def both(*arguments: Any, **options: Any) -> Any:
            # At once: most of it is waiting, for a server here and for a thread there.
            answers = await asyncio.gather(
                *(ask(store, *arguments, **options) for store in self._stores)
            )
            first, second = answers
            if isinstance(first, CoatcheckError):
                assert type(first) is type(second), (verb, first, second)
                raise first
            assert _comparable(verb, first) == _comparable(verb, second), (verb, first, second)
            return first

        return both


def _comparable(verb: str, answer: Any) -> Any:
    match verb:
        case "get_many":  # in no order
            return sorted(answer, key=lambda job: (job.tenant, job.id))
        case "list_workers":  # only SQLite can tell that one is dead
            return [seen.info for seen in answer]
    return answer


# I10, I11, I12: SQLite by default, PostgreSQL for several instances, one interface before both.
class MirroredMachine(StoreMachine):
    dsn: ClassVar[str]
    schemas: ClassVar[Schemas]
    slow_s: ClassVar[float] = SLOW_S  # what looking everywhere may take

    def new_store(self) -> Store:
        self.schema = self.schemas.lend()
        self.folder = Path(tempfile.mkdtemp(prefix="coatcheck-machine-"))
        postgres = PostgresStore(self.dsn, schema=self.schema, connections=2, poll_s=60)
        postgres._claimer.lanes = ClaimCursor(self.slow_s, slow_looks=1)
        sqlite = SQLiteStore(migrated(self.folder / "jobs.db"), poll_s=60)
        return Mirrored(postgres, sqlite)

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            shutil.rmtree(self.folder)
            self.schemas.take_back(self.schema)


TestMirroredMachine = MirroredMachine.TestCase
TestMirroredMachine.settings = settings(
    max_examples=25,
    stateful_step_count=60,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)


class LanesMachine(MirroredMachine):
    """Looking everywhere is always slow: claims go by the lanes that are known where they can."""

    slow_s = -60.0


TestLanesMachine = LanesMachine.TestCase
TestLanesMachine.settings = settings(TestMirroredMachine.settings, max_examples=15)


@pytest.fixture(autouse=True, scope="module")
def server(dsn: str, schemas: Schemas) -> None:
    MirroredMachine.dsn = dsn
    MirroredMachine.schemas = schemas
