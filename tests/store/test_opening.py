"""Opening and closing a store, in any order a failing program might do it."""

from __future__ import annotations

from pathlib import Path

import pytest

from coatcheck.errors import Conflict, IllegalTransition
from coatcheck.model.job import Failure, Terms
from coatcheck.model.outcome import Errored, Released
from coatcheck.model.transition import created, request_cancel, settled
from coatcheck.store.sqlite.database.locks import LivenessLocks
from coatcheck.store.sqlite.store import SQLiteStore

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_store_may_be_closed_before_it_was_opened_and_twice(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "jobs.db")
    await store.close()
    await store.open()
    await store.close()
    await store.close()
    await store.open()
    await store.close()


def test_a_life_sign_that_somebody_else_holds_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    one, other = LivenessLocks(tmp_path), LivenessLocks(tmp_path)
    one.hold("worker-1")
    one.hold("worker-1")
    with pytest.raises(Conflict, match="alive already"):
        other.hold("worker-1")
    one.close()
    other.hold("worker-1")
    other.close()


@pytest.mark.parametrize("outcome", [Errored(Failure("x", "y"), 0), Released()])
def test_only_a_running_job_has_an_attempt_that_can_end(outcome: Errored | Released) -> None:
    queued = created(1, 1).status
    cancelled = request_cancel(queued, Terms(), 2)
    assert cancelled is not None
    for status in (queued, cancelled.status):
        with pytest.raises(IllegalTransition):
            settled(status, Terms(), outcome, 3)
