"""P6 to the millisecond, on a controlled clock: jobs of a dead worker are claimable within a lease
and two sweeps, and no live worker is declared lost.
"""

from __future__ import annotations

import random

import pytest

from coatcheck.engine.engine import Engine
from coatcheck.engine.maintenance.sweep import Sweeper
from coatcheck.engine.submit.submission import Submission
from coatcheck.model.worker import WorkerInfo
from coatcheck.testing.checker import Bounds, Orphan, RunRecord, Submit, check, read_records
from coatcheck.testing.conformance.arrange import worker_info
from coatcheck.worker.heartbeat import BEATS_PER_LEASE

from .app import app
from .place import Place
from .schedule_kills import ToldClock

pytestmark = pytest.mark.anyio

START = 2_000_000_000_000
LEASE_MS, SWEEP_MS = 30_000, 5_000
LIVES = 25


def sweeps(first: int, chance: random.Random) -> list[int]:
    """Say when somebody looks: as a sweeper pauses, at times as long as it ever does."""
    times = [first]
    while times[-1] < first + 10 * LEASE_MS:
        share = 1.0 if chance.random() < 0.5 else chance.uniform(0.8, 1.0)
        times.append(times[-1] + round(SWEEP_MS * share))
    return times


async def test_an_orphan_is_claimable_within_a_lease_and_two_sweeps(
    place: Place, seed: int
) -> None:
    print(f"seed {seed}")
    store, clock, chance = place.store(), ToldClock(START), random.Random(seed)
    await store.open()
    engine = Engine(store, app.kinds, clock)
    submits = [Submit((await engine.submit(Submission("quick", "1"))).id)]
    orphans, waited = [], []
    for number in range(LIVES):  # all of them are given the same job
        worker = worker_info(f"worker-{number}")
        await store.workers.register_worker(worker)
        [claim] = (await engine.claim(worker.id, ["quick"], 1)).claims
        died = await _live_and_die(engine, worker, sweeps(clock.now(), chance), chance)
        orphans.append(Orphan(claim.lease.job_id, claim.lease.fence, died))
        waited.append(clock.now() - died)
    records = await read_records(store, submits)
    bounds = Bounds(LEASE_MS / 1000, SWEEP_MS / 1000)
    check(RunRecord(submits, records, ended=False, orphans=orphans, bounds=bounds))
    assert [record.job.fence for record in records if record.job] == [2 * LIVES]
    # Who beat a moment before a sweep is found soonest; nobody before the lease is over.
    assert min(waited) >= LEASE_MS
    assert max(waited) > LEASE_MS + SWEEP_MS, "the worst moments to die were tried, too"
    await store.close()


async def _live_and_die(
    engine: Engine, worker: WorkerInfo, looks: list[int], chance: random.Random
) -> int:
    """Beat, as a worker does, until a death right after a beat; sweep until it is found. Returns
    when the worker died; the clock then says when that was found.
    """
    sweeper = Sweeper(engine.store, engine.clock, lease_s=LEASE_MS / 1000, sweep_s=SWEEP_MS / 1000)
    beat_ms = LEASE_MS // BEATS_PER_LEASE
    # Half of them die a moment after somebody looked, which is when it takes longest.
    first = looks[1] + 1 if chance.random() < 0.5 else looks[0] + chance.randrange(1, beat_ms)
    beats = [first + number * beat_ms for number in range(chance.randrange(1, 6))]
    for at, what in sorted([(at, "beat") for at in beats] + [(at, "look") for at in looks]):
        engine.clock.milliseconds = at  # type: ignore[attr-defined]  # it is told the time
        if what == "beat":
            assert await engine.store.workers.heartbeat(worker.id), "it was taken for dead"
            continue
        await sweeper.sweep()
        if not await engine.store.workers.list_workers():
            assert at > beats[-1], "it was taken for dead"
            return beats[-1]
    raise AssertionError("nobody has found it")
