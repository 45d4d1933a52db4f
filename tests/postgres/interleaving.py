"""Store operations beside each other, statement by statement, in orders drawn from seeds.

Some bugs need one transaction to come between two statements of another. Under load that happens
once in very many tries, so nobody sees it until it matters. Here two stores, as of two processes,
run a few operations of a scenario (scenarios.py) in an order that a seed chooses (schedule.py).
When all has come to rest, what must hold of the rows is looked at (at_rest.py), without a sweep
first: what the sweep would mend it would also hide.

More seeds than the tests take, of all scenarios or of some:

    python -m tests.postgres.interleaving 1000
    python -m tests.postgres.interleaving 5000:9000 families cancelling
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch

import asyncpg

from coatcheck.store.base import Topic
from coatcheck.store.postgres.claims.claimer import PostgresClaimer
from coatcheck.store.postgres.database import pool as database
from coatcheck.store.postgres.store import PostgresStore
from tests.postgres.at_rest import check
from tests.postgres.scenarios import SCENARIOS, Scenario
from tests.postgres.schedule import Gated, Schedule
from tests.postgres.server import TrialServer
from tests.postgres.world import World

PROCESSES = 2
CONNECTIONS = 10
# Nobody but the schedule ends a circle; nothing is to be kept.
SETTINGS = ("SET synchronous_commit = off", "SET deadlock_timeout = '60s'")
_numbers = itertools.count(1)


class Told:
    """What a store has told others, in place of its notifications."""

    def __init__(self) -> None:
        self.topics: list[Topic] = []

    def publish(self, topics: set[Topic]) -> None:
        """Note what was told."""
        self.topics += sorted(topics)

    def wake_at(self, topic: Topic, at: float) -> None:
        """Note nothing: no time passes here."""


class Explorer:
    """Runs scenarios on one schema."""

    def __init__(self, stores: Sequence[PostgresStore], connections: Sequence[Any]) -> None:
        self._stores = stores
        self._observer, *rest = connections
        self._free = list(rest)
        sql = stores[0]._sql
        self._names = {
            text: name
            for name, text in {**sql._statements, **vars(sql)}.items()
            if isinstance(text, str)
        }
        self._schedule: Schedule
        self.turns = self.circles = 0
        for store in stores:
            store._database._run_once = self._run_once  # type: ignore[method-assign]  # the seam

    async def run(self, scenario: Scenario, seed: int) -> None:
        """Run a scenario in the order of a seed, and check what it leaves."""
        self._schedule = schedule = Schedule(seed, self._observer, self._names)
        await self._clear()
        for store in self._stores:
            told: Any = Told()
            store._compose(PostgresClaimer(store._database, store._sql), told)
            store.jobs.open()
            store.workers.open()
        world = World(self._stores, schedule, self._observer)
        try:
            await scenario(world)
            await check(world)
        except Exception as error:
            turns = "\n  ".join(schedule.trace)
            told = f"{scenario.__name__}, seed {seed}:\n  {turns}\n{error!r}"
            raise AssertionError(told) from error
        self.turns += len(schedule.trace)
        self.circles += schedule.circles

    @property
    def order(self) -> list[str]:
        """Return the order of the last run."""
        return self._schedule.trace

    async def _run_once(self, operation: Any, transaction: bool) -> Any:
        connection = self._free.pop()
        try:
            return await database._run_on(Gated(self._schedule, connection), operation, transaction)
        finally:
            self._free.append(connection)

    async def _clear(self) -> None:
        schema = self._stores[0]._sql.schema
        tables = await self._observer.fetch(
            "SELECT tablename FROM pg_tables WHERE schemaname = $1", schema
        )
        kept = ("migrations", "access_epoch")
        await self._observer.execute(
            ";".join(f'DELETE FROM "{schema}"."{row[0]}"' for row in tables if row[0] not in kept)
        )


@asynccontextmanager
async def exploring(dsn: str, schema: str) -> AsyncIterator[Explorer]:
    """Yield an explorer, with stores and connections of its own."""
    stores = [PostgresStore(dsn, schema=schema, connections=1, poll_s=60) for _ in range(PROCESSES)]
    connections = []
    with patch.object(database, "FIRST_PAUSE_S", 0.0):
        try:
            for store in stores:
                await store.open()
            for _ in range(CONNECTIONS):
                connections.append(await asyncpg.connect(dsn))
                for setting in SETTINGS:
                    await connections[-1].execute(setting)
            notifications = [store._notifications for store in stores]
            yield Explorer(stores, connections)
            for store, each in zip(stores, notifications, strict=True):
                store._notifications = each
                await store.close()
        finally:
            for connection in connections:
                connection.terminate()


async def explore(dsn: str, schema: str, seeds: Sequence[int], names: Sequence[str]) -> int:
    """Run seeds of scenarios, say what was found, and return how many failed."""
    failed = 0
    async with exploring(dsn, schema) as explorer:
        for name in names:
            begun, turns, circles, found = time.monotonic(), explorer.turns, explorer.circles, 0
            for seed in seeds:
                try:
                    await explorer.run(SCENARIOS[name], seed)
                except AssertionError as error:
                    found += 1
                    if found <= 3:
                        print(error, flush=True)
            took = time.monotonic() - begun
            print(
                f"{name}: {len(seeds)} seeds, {explorer.turns - turns} turns, "
                f"{explorer.circles - circles} circles, {found} failed, {took:.0f} s",
                flush=True,
            )
            failed += found
    return failed


def main() -> None:
    """Run as many seeds as the command line says."""
    wanted, *names = sys.argv[1:] or ["100"]
    first, _, last = wanted.rpartition(":")
    seeds = range(int(first or 0), int(last))
    schema = f"explored_{os.getpid()}"
    given = os.environ.get("COATCHECK_TEST_POSTGRES")
    if given:
        sys.exit(asyncio.run(explore(given, schema, seeds, names or list(SCENARIOS))) > 0)
    with TrialServer() as server:
        failed = asyncio.run(explore(server.dsn, schema, seeds, names or list(SCENARIOS)))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
