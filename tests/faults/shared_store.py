"""Many processes on one store, cancels that race with settles, and graceful restarts."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter

from coatcheck.engine.submit.submission import as_submitted
from coatcheck.model.state import State
from coatcheck.testing.checker import Submit

from .launcher import Launcher
from .place import Place
from .stage import Stage, Tally

BATCH = 100


async def crowd(
    place: Place, launcher: Launcher, *, jobs: int, seed: int, processes: int = 8
) -> Tally:
    """Have many processes work on jobs that come in every way there is."""
    # Nobody dies here, and nobody is to be taken for dead.
    stage = Stage(f"{processes} processes", place, launcher, seed, lease_s=30.0)
    async with stage.open():
        workers = [await stage.started() for _ in range(processes)]
        stage.tally.tried = processes
        await asyncio.gather(*(stage.submit("quick", n) for n in range(min(jobs // 4, 500))))
        while len(stage.submits) < jobs:
            await stage.submit_mix(min(BATCH, jobs - len(stage.submits)))
        await stage.all_ended()
        await stage.terminate(*workers)
        tally = await stage.check()
        tally.notes["stale writes"] = (await stage.store.maintenance.read_counters()).get(
            "stale_writes", 0
        )
        return tally


async def race_cancels(place: Place, launcher: Launcher, *, races: int, seed: int) -> Tally:
    """Cancel jobs at about the moment they complete, fail or are tried again."""
    async with Stage("cancel races the end", place, launcher, seed).open() as stage:
        workers = [await stage.started(), await stage.started()]
        kinds = ("slow", "hopeless", "second_try", "quick", "threaded")
        ended: Counter[str] = Counter()
        latest = 0.03  # how late a cancel may come

        async def race(number: int) -> bool:
            job_id = await stage.submit(kinds[number % len(kinds)], stage.random.randint(1, 20))
            await asyncio.sleep(stage.random.uniform(0, latest))  # what is tried, not waited for
            await stage.engine.cancel(job_id)
            job = await stage.engine.wait(job_id, 60)
            ended[job.state] += 1
            return job.state is State.CANCELLED

        for first in range(0, races, 20):
            numbers = range(first, min(races, first + 20))
            won = sum(await asyncio.gather(*(race(n) for n in numbers)))
            # Where most cancels win, or few, the machine is slower or faster than it was.
            if not len(numbers) // 3 <= won <= 2 * len(numbers) // 3:
                latest *= 2 if won > len(numbers) // 2 else 0.5
        stage.tally.tried = races
        await stage.all_ended()
        await stage.terminate(*workers)
        tally = await stage.check()
        tally.notes.update(ended)
        return tally


async def restart_in_mid_drain(
    place: Place, launcher: Launcher, *, restarts: int, seed: int
) -> Tally:
    """Start a worker of the same name while the one before drains, which is then killed or not."""
    async with Stage("restart in mid-drain", place, launcher, seed).open() as stage:
        gate = place.folder / "gate"
        worker = await stage.started(told=["worker.draining"], drain_s=1.0)
        for number in range(restarts):
            gate.unlink(missing_ok=True)
            jobs = [stage.new_job("held", number) for _ in range(3)]
            await stage.store.jobs.submit_batch(jobs, stage.engine.clock.now())
            stage.submits += [Submit(job.id) for job in jobs]
            for job in jobs:  # each says so once it runs
                await stage.engine.wait_for_event(as_submitted(job), 2, 60)
            worker.signal(signal.SIGTERM)
            assert await worker.says() == "worker.draining"
            successor = await stage.started(told=["worker.draining"], drain_s=1.0)
            await stage.submit_mix(2)
            stage.tally.tried += 1
            if number % 2:
                stage.orphans += await stage.held_by(worker)
                await worker.kill()
            elif number % 4:
                await worker.gone()  # the drain is over: what it held is given back
            gate.touch()
            await stage.all_ended()
            worker = successor
        await stage.all_ended()
        await stage.terminate(worker)
        return await stage.check()
