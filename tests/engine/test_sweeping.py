"""What is done with every sweep beside what the store needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from coatcheck.clock import SystemClock
from coatcheck.engine.maintenance.sweep import Sweeper
from coatcheck.store.sqlite.store import SQLiteStore

pytestmark = pytest.mark.anyio


async def test_a_chore_that_fails_keeps_nobody_from_theirs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []

    async def breaks() -> None:
        done.append("breaks")
        raise LookupError("of its own")

    async def works() -> None:
        done.append("works")

    store = SQLiteStore(tmp_path / "jobs.db")
    await store.open()
    try:
        sweeper = Sweeper(store, SystemClock(), lease_s=30, sweep_s=5, chores=[breaks, works])
        await sweeper.sweep()
        await sweeper.sweep()
    finally:
        await store.close()
    assert done == ["breaks", "works"] * 2
    assert "maintenance task failed" in caplog.text
