"""The faults of docs/reliability.md in small: each run ends with the checker of every promise."""

from __future__ import annotations

import pytest

from .kills import kill_workers
from .launcher import Launcher
from .place import Place

pytestmark = pytest.mark.anyio


async def test_workers_are_killed_at_every_point(
    place: Place, launcher: Launcher, seed: int
) -> None:
    tally = await kill_workers(place, launcher, kills=50, seed=seed)
    assert tally.violations == []
    assert tally.tried == 50
