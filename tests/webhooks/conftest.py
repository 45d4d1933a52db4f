from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coatcheck import App, Context
from coatcheck.egress.policy import EgressPolicy
from coatcheck.engine.engine import Engine
from coatcheck.store.sqlite.store import SQLiteStore
from tests.store.template import migrated

app = App()


@app.job
async def echo(ctx: Context, value: int) -> int:
    return value


class MovedClock:
    """The machine's clock, moved on by a test; signatures are verified by the real one."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_ms / 1000


class StoppedClock(MovedClock):
    """Stands still until a test moves it on."""

    def __init__(self) -> None:
        super().__init__()
        self._began = time.time_ns() // 1_000_000

    def now(self) -> int:
        return self._began + self.ahead_ms

    def monotonic(self) -> float:
        return self.ahead_ms / 1000


@contextlib.asynccontextmanager
async def delivering(engine: Engine) -> AsyncIterator[None]:
    task = asyncio.create_task(engine.dispatcher.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
async def engine(clock: MovedClock) -> AsyncIterator[Engine]:
    with tempfile.TemporaryDirectory(prefix="hooks-") as folder:
        store = SQLiteStore(migrated(Path(folder) / "jobs.db"))
        await store.open()
        engine = Engine(store, app.kinds, clock, egress=EgressPolicy("127.0.0.1"))
        yield engine
        await engine.dispatcher.close()
        await store.close()
