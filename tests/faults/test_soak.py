"""The soak test detects growth, and a short run works."""

from __future__ import annotations

import pytest

from .soak import ACTS, BOUNDS, Soaked, soak


def seen(name: str, *samples: float) -> Soaked:
    soaked = Soaked("sqlite")
    soaked.seen = {each: [100.0] * len(samples) for each in BOUNDS}
    soaked.seen[name] = list(samples)
    return soaked


@pytest.mark.parametrize("name", BOUNDS)
def test_growth_is_reported(name: str) -> None:
    assert seen(name, 10, 50, 100, 100, 101, 99, 100, 101).grown() == []
    [found] = seen(name, 10, 50, 100, 100, 110, 120, 130, 140).grown()
    assert found == f"{name}: 100.0 became 135.0"


@pytest.mark.timeout(400)
@pytest.mark.anyio
async def test_the_load_contains_every_kind_of_job() -> None:
    soaked = await soak("sqlite", seconds=8, seed=1)
    assert soaked.wrong == []
    assert set(soaked.done) == set(ACTS)
    assert all(len(samples) >= 4 for samples in soaked.seen.values())
