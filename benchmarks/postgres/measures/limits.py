"""The cost of limits and fairness for a claim, as on SQLite."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from benchmarks.measures.limits import VARIATIONS, Opener, compare
from benchmarks.plan import Plan
from benchmarks.postgres.server import Server
from benchmarks.results import Measure
from coatcheck.store.base import Store
from coatcheck.store.postgres.store import PostgresStore


def measure(plan: Plan, server: Server) -> list[Measure]:
    """Claim from a database of each variation in turns."""
    with contextlib.ExitStack() as stack:
        openers = [_postgres(stack.enter_context(server.fresh_database())) for _ in VARIATIONS]
        return asyncio.run(compare(openers, claims=40 if plan.quick else 60 * plan.rounds))


def _postgres(address: str) -> Opener:
    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[Store]:
        store = PostgresStore(address, connections=2)
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    return opened
