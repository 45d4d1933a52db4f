"""How often a statement is tried on PostgreSQL, and how long is waited in between."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coatcheck.errors import StoreUnavailable
from coatcheck.store.postgres.database import pool as database
from coatcheck.store.postgres.database.pool import Database

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Away:
    """A pool whose server cannot be reached."""

    def __init__(self) -> None:
        self.asked = 0

    def acquire(self, timeout: float) -> Any:
        self.asked += 1
        raise ConnectionRefusedError

    def is_closing(self) -> bool:
        return False


async def test_a_statement_is_tried_three_times(monkeypatch: pytest.MonkeyPatch) -> None:  # G23
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", pause)
    tried = Database("postgresql://nowhere/", connections=2)
    tried._pool = pool = Away()
    with pytest.raises(StoreUnavailable):
        await tried.execute("SELECT 1")
    assert pool.asked == 3
    # 500 ms, doubled, with up to half as much again.
    assert 0.5 <= pauses[0] <= 0.75
    assert 1.0 <= pauses[1] <= 1.5
    assert len(pauses) == 2
    assert database.LONGEST_PAUSE_S == 5.0
