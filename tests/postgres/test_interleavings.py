"""Operations beside each other, in orders that seeds choose: a few of them, the same each time.

`python -m tests.postgres.interleaving` tries as many as one likes.
"""

from __future__ import annotations

import pytest

from coatcheck.model.outcome import Succeeded
from tests.postgres.interleaving import exploring
from tests.postgres.scenarios import SCENARIOS
from tests.postgres.world import World

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

SEEDS = 25


async def test_whatever_the_order_all_is_well_in_the_end(dsn: str, schema: str) -> None:
    async with exploring(dsn, schema) as explorer:
        for scenario in SCENARIOS.values():
            for seed in range(SEEDS):
                await explorer.run(scenario, seed)


async def two_at_once(world: World) -> None:
    """Only one can wait for the other: where more do, it is the server that lets one go first."""
    await world.work()
    [lease] = await world.running(world.stores[0])
    await world.together(
        world.cancel(world.stores[1], lease.job_id),
        world.settle(world.stores[1], (lease, Succeeded("1"))),
    )


async def test_a_seed_is_an_order(dsn: str, schema: str) -> None:
    async with exploring(dsn, schema) as explorer:
        orders = []
        for seed in (*range(6), *range(6)):
            await explorer.run(two_at_once, seed)
            orders.append(explorer.order)
    assert orders[:6] == orders[6:]
    assert len({tuple(order) for order in orders}) > 1
    assert any(line.endswith(" waits") for order in orders for line in order)
