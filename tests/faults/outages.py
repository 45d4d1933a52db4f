"""PostgreSQL restarts under the workers, and connections that break after COMMIT was sent."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import time

from tests.postgres.proxy import Proxy
from tests.postgres.server import TrialServer

from .kills import STRIKES
from .launcher import Launcher, Subject
from .place import Place
from .stage import Stage, Tally

WORKERS = 2


async def restart_postgres(
    place: Place,
    launcher: Launcher,
    server: TrialServer,
    *,
    cycles: int,
    seed: int,
    seconds: float = 0.0,
    jobs: int = 0,
) -> Tally:
    """Stop and start the server over and over, so often and for so long at least, while jobs come
    in, as many at least, and workers are killed.
    """
    async with Stage("PostgreSQL restarted", place, launcher, seed).open() as stage:
        workers = [await stage.started() for _ in range(WORKERS)]
        until, over = time.monotonic() + seconds, asyncio.Event()

        async def submit_all() -> None:
            for number in itertools.count():
                if over.is_set() and number >= jobs:
                    return
                await stage.submit(stage.random.choice(("quick", "slow", "threaded")), number % 20)
                await asyncio.sleep(0.02)  # a stream, not a burst

        submitting = asyncio.create_task(submit_all())
        killed = 0
        for cycle in itertools.count():
            if cycle >= cycles and time.monotonic() >= until:
                break
            victim = stage.start(stage.random.choice(STRIKES))
            await stage.submit_mix(2)
            await _until_it_stops(stage, victim)
            await asyncio.to_thread(server.stop, ("fast", "immediate")[cycle % 2])
            await victim.kill()
            killed += 1
            if cycle % 3 == 2:  # another dies while the server is away
                await workers.pop(0).kill()
                killed += 1
            await asyncio.to_thread(server.start)
            if len(workers) < WORKERS:  # one that starts without a server ends, as it should
                workers.append(await stage.started())
            stage.tally.tried += 1
        over.set()
        await submitting
        await stage.all_ended()
        await stage.terminate(*workers)
        tally = await stage.check()
        tally.notes["workers killed"] = killed
        return tally


async def _until_it_stops(stage: Stage, victim: Subject) -> None:
    async with asyncio.TaskGroup() as feeding:
        while True:
            try:
                if await victim.says(timeout=1.0) not in ("ready", ""):
                    return
            except TimeoutError:
                feeding.create_task(stage.submit_mix(2))


async def drop_connections(place: Place, launcher: Launcher, *, drops: int, seed: int) -> Tally:
    """Lose the answer to a COMMIT, over and over: of submits, claims and settles alike."""
    async with contextlib.AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(Proxy(place.database))
        far = dataclasses.replace(place, database=proxy.dsn)
        stage = Stage("connection dropped after COMMIT", place, launcher, seed)
        await stack.enter_async_context(stage.open())
        store = far.store()
        await store.open()
        stack.push_async_callback(store.close)
        workers = [
            await stage.started(database=proxy.dsn),
            await stage.started(database=proxy.dsn),
        ]
        for number in range(drops):
            proxy.cut_on("COMMIT")
            while not proxy.has_cut.is_set():
                await stage.submit(("quick", "second_try", "threaded")[number % 3], number, store)
            stage.tally.tried += 1
        await stage.all_ended()
        await stage.terminate(*workers)
        return await stage.check()
