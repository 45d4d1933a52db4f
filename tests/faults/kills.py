"""SIGKILL of workers at failpoints."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

from coatcheck.worker.failpoints import CHECKPOINTS, POINTS

from .launcher import Launcher
from .place import Place
from .stage import APART, PLAIN, STEPPING, Stage, Tally

# Victims live side by side, so that what one leaves behind is taken up by others that die.
AT_ONCE = 4
ELSEWHERE = ("worker.draining", *CHECKPOINTS)
STRIKES = (*(point for point in POINTS if point not in ELSEWHERE), "handler.began")
# A pipeline has ten checkpoints, and those of others are counted, too.
PASSES_AT_CHECKPOINTS = 20


async def kill_workers(place: Place, launcher: Launcher, *, kills: int, seed: int) -> Tally:
    """Kill so many workers, in turn at every point, while they work on jobs of many kinds."""
    stage = Stage("SIGKILL of a worker", place, launcher, seed)
    return await _kill(stage, kills, STRIKES, PLAIN, most_passes=3)


async def kill_at_checkpoints(place: Place, launcher: Launcher, *, kills: int, seed: int) -> Tally:
    """Kill so many workers before and after they write what handlers have done for good."""
    stage = Stage("SIGKILL at a checkpoint", place, launcher, seed)
    return await _kill(stage, kills, CHECKPOINTS, STEPPING, most_passes=PASSES_AT_CHECKPOINTS)


async def kill_with_processes(place: Place, launcher: Launcher, *, kills: int, seed: int) -> Tally:
    """Kill so many workers whose handlers run in processes of their own."""
    stage = Stage("SIGKILL with processes", place, launcher, seed, app="isolated")
    points = [point for point in POINTS if point != "worker.draining"]
    return await _kill(stage, kills, points, APART, most_passes=3)


async def _kill(
    stage: Stage, kills: int, strikes: Sequence[str], kinds: Sequence[str], most_passes: int
) -> Tally:
    async with stage.open():
        points = itertools.islice(itertools.cycle(strikes), kills)

        async def victims() -> None:
            for point in points:
                await kill_one(stage, point, kinds, stage.random.randint(1, most_passes))
                await stage.delete_one()

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(victims())
        workers = [await stage.started(), await stage.started()]
        await stage.all_ended()
        await stage.delete_one()
        await stage.terminate(*workers)
        return await stage.check()


async def kill_one(stage: Stage, point: str, kinds: Sequence[str], passes: int) -> None:
    """Kill a worker when it comes to a point for this time."""
    await stage.submit_mix(4, kinds)
    victim = stage.start(point, passes=passes)
    # Where it stands still it may hold the file that all write to. So nobody waits for a write
    # while the victim is not watched: what is handed in meanwhile is handed in beside.
    async with asyncio.TaskGroup() as feeding:
        while True:
            try:
                said = await victim.says(timeout=1.0)
            except TimeoutError:
                feeding.create_task(stage.submit_mix(4, kinds))  # others have taken all there was
                continue
            if said == "ready":
                continue
            assert said == point, f"it ended by itself: {said!r}"
            orphans = await stage.held_by(victim)
            if point != "worker.claimed" or orphans:
                await stage.kill(victim, orphans=orphans)
                return
            victim.go()  # it claimed nothing: the next time, then
            feeding.create_task(stage.submit_mix(4, kinds))
