"""Faults within one process: failing calls, clocks, disks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coatcheck.engine.webhooks import dispatcher
from coatcheck.worker import store_retry

from .clocks import jump
from .disks import run_out_of_room, tear_tails
from .nth_call import PERSISTENTLY, fail_on_every_call
from .place import Place

pytestmark = pytest.mark.anyio

# The store verbs that a run of jobs with steps, events and deliveries calls at least.
USED = frozenset(
    {"submit", "send_event", "cancel", "claim", "report", "settle", "list_steps"}
    | {"list_sent_events", "claim_deliveries", "record_deliveries", "list_secrets"}
    | {"register_worker", "remove_worker", "sweep", "list_workers", "erase_deleted"}
)


@pytest.fixture(autouse=True)
def surroundings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Handlers run here; pauses, folder and time zone are as before afterwards."""
    monkeypatch.setenv("FAULT_FOLDER", str(folder))
    monkeypatch.setattr(store_retry, "FIRST_PAUSE_S", store_retry.FIRST_PAUSE_S)
    monkeypatch.setattr(store_retry, "LONGEST_PAUSE_S", store_retry.LONGEST_PAUSE_S)
    monkeypatch.setattr(dispatcher, "RETRY_S", dispatcher.RETRY_S)
    zone = os.environ.get("TZ")
    yield
    if zone is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = zone
    time.tzset()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("times", [1, PERSISTENTLY], ids=["once", "persistently"])
@pytest.mark.parametrize("first_does", [False, True], ids=["nothing done", "done all the same"])
async def test_every_call_of_the_store_fails(
    place: Place, seed: int, times: int, first_does: bool
) -> None:
    tally = await fail_on_every_call(place, seed=seed, times=times, first_does=first_does)
    assert tally.violations == []
    assert tally.heard == tally.tried + 1
    assert set(tally.notes) >= USED


async def test_the_clock_and_the_time_zone_jump(place: Place, seed: int) -> None:
    tally = await jump(place, seed=seed)
    assert tally.violations == []


async def test_the_disk_is_full_or_files_may_not_grow(sqlite: Place, seed: int) -> None:
    tally = await run_out_of_room(sqlite, times=4, seed=seed)
    assert tally.violations == []


async def test_the_tail_of_the_wal_is_torn(sqlite: Place, seed: int) -> None:
    tally = await tear_tails(sqlite, times=10, seed=seed)
    assert tally.violations == []
