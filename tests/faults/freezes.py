"""SIGSTOP past the lease, then SIGCONT: the late writes of a stale holder change nothing."""

from __future__ import annotations

import asyncio
import signal

from .frozen_processes import is_being_written, stands_still
from .launcher import Launcher, Subject
from .place import Place
from .stage import MARGIN_S, Stage, Tally

POINTS = (
    "worker.before_settle",
    "worker.before_checkpoint",
    "worker.claimed",
    "handler.began",
    "worker.before_beat",
)
AT_ONCE = 10
# So long a process that is frozen in a transaction keeps its jobs on PostgreSQL.
STALLED_S = 5.0


async def freeze_workers(place: Place, launcher: Launcher, *, freezes: int, seed: int) -> Tally:
    """Freeze workers that hold jobs until others have done these, then let them go on."""
    async with Stage("SIGSTOP past the lease", place, launcher, seed).open() as stage:
        while stage.tally.tried < freezes:
            await _freeze_some(stage, min(AT_ONCE, freezes - stage.tally.tried))
        tally = await stage.check(margin_s=MARGIN_S + STALLED_S)
        tally.notes["stale writes refused"] = (await stage.store.maintenance.read_counters()).get(
            "stale_writes", 0
        )
        return tally


async def _freeze_some(stage: Stage, count: int) -> None:
    frozen = []
    for number in range(count):
        point = POINTS[number % len(POINTS)]
        subject = await _holding(stage, point)
        frozen.append(subject)
    lost = asyncio.create_task(_all_lost(stage, frozen))
    healthy = await stage.started()
    await lost
    await stage.all_ended()
    for subject in frozen:
        subject.signal(signal.SIGCONT)
        stage.tally.tried += 1
    await stage.submit_mix(2 * count)
    await stage.all_ended()
    await stage.terminate(healthy, *frozen)


async def _holding(stage: Stage, point: str) -> Subject:
    """Start a worker, and freeze it at a point when it holds something."""
    kind = "pipeline" if point == "worker.before_checkpoint" else "slow"
    await stage.submit(kind, 1_000 if point == "worker.before_beat" else 1)
    subject = await stage.started(point)
    async with asyncio.TaskGroup() as feeding:
        while True:
            try:
                said = await subject.says(timeout=1.0)
            except TimeoutError:
                feeding.create_task(stage.submit(kind, 1_000))
                continue
            assert said == point, said
            orphans = await stage.held_by(subject)
            if orphans and await _freeze_outside_a_write(stage.place, subject):
                stage.orphans += orphans
                subject.go(for_good=True)  # which it will hear when it is thawed
                return subject
            subject.go()


async def _freeze_outside_a_write(place: Place, subject: Subject) -> bool:
    """Freeze a process, unless it holds the file everybody writes to."""
    subject.signal(signal.SIGSTOP)
    while not stands_still(subject.pid):  # noqa: ASYNC110 - the kernel tells nobody
        await asyncio.sleep(0.001)
    if is_being_written(place):
        subject.signal(signal.SIGCONT)
        return False
    return True


async def _all_lost(stage: Stage, subjects: list[Subject]) -> None:
    pids = {subject.pid for subject in subjects}
    while pids & {seen.info.pid for seen in await stage.store.workers.list_workers()}:  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.05)
