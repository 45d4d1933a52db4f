"""The wall clock jumps by an hour, back and forth, and the time zone changes, while jobs run."""

from __future__ import annotations

import os
import time

from coatcheck.clock import SystemClock
from coatcheck.engine.engine import Engine
from coatcheck.engine.maintenance.sweep import Sweeper
from coatcheck.engine.submit.submission import as_submitted
from coatcheck.settings import Settings
from coatcheck.testing.checker import Submit
from coatcheck.worker.worker import Worker

from .app import app
from .nth_call import working
from .place import SWEEP_S, Place
from .stage import NO_PROCESSES, Stage, Tally

HOUR_MS = 3_600_000
LONG_LEASE_S = 30.0
ZONES = ("Pacific/Kiritimati", "America/St_Johns", "UTC")


class JumpingClock(SystemClock):
    """The machine's clock, with somebody who sets it."""

    def __init__(self) -> None:
        self.ahead = 0

    def now(self) -> int:
        return super().now() + self.ahead


async def jump(place: Place, *, seed: int) -> Tally:
    """Set the clock and the zone under running, delayed and waiting jobs."""
    # No jump may lose anybody, and a busy machine must not either: a jump is a hundred leases.
    stage = Stage("clock and time zone jump", place, NO_PROCESSES, seed, lease_s=LONG_LEASE_S)
    clock = JumpingClock()
    async with stage.open():
        engine = Engine(stage.store, app.kinds, clock)
        sweeper = Sweeper(stage.store, clock, lease_s=LONG_LEASE_S, sweep_s=SWEEP_S)
        settings = Settings(concurrency=8, lease_s=LONG_LEASE_S, sweep_s=SWEEP_S, drain_s=5)
        held = [stage.new_job("held", n) for n in range(3)]
        later = stage.new_job("quick", 1)
        later = later._replace(run_at=later.run_at + HOUR_MS // 2)
        async with working(Worker(engine, settings)):
            await stage.store.jobs.submit_batch([*held, later], clock.now())
            stage.submits += [Submit(job.id) for job in (*held, later)]
            for job in held:
                await engine.wait_for_event(as_submitted(job), 2, 60)
            for ahead, zone in zip((HOUR_MS, -HOUR_MS, 0), ZONES, strict=True):
                clock.ahead = ahead
                _live_in(zone)
                for _ in range(3):
                    await sweeper.sweep()
                now = [await stage.submit(kind, 1) for kind in ("quick", "second_try", "slow")]
                if ahead >= 0:  # else they are not due for an hour
                    for job_id in now:
                        assert (await engine.wait(job_id, 60)).finished_at is not None
                if ahead > 0:
                    assert (await engine.wait(later.id, 60)).finished_at is not None
                stage.tally.tried += 2
            (place.folder / "gate").touch()
            await stage.all_ended()
        for job in held:
            assert (await stage.engine.get(job.id)).attempt == 1, "a jump of the clock loses nobody"
        assert "lapsed_leases" not in await stage.store.maintenance.read_counters()
        return await stage.check()


def _live_in(zone: str) -> None:
    os.environ["TZ"] = zone
    time.tzset()
