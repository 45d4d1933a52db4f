"""A stage: a store, the processes on it, what was asked of them, and at the end the checker.

The test process submits, sweeps and strikes; the jobs run in processes that a launcher forks.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import socket
import statistics
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field

from coatcheck.clock import SystemClock
from coatcheck.engine.engine import Engine
from coatcheck.engine.submission import Submission, prepare
from coatcheck.engine.sweep import Sweeper
from coatcheck.errors import StoreUnavailable
from coatcheck.model.job import DEFAULT_TENANT, Job, NewJob
from coatcheck.model.state import State
from coatcheck.store.base import Store
from coatcheck.testing.checker import (
    Bounds,
    EffectLog,
    JobRecord,
    Orphan,
    Run,
    Submit,
    Violation,
    read_records,
    violations_of,
)
from coatcheck.testing.checker.replay import replay
from coatcheck.testing.checker.run import first_fence

from .app import app, worked_out
from .launcher import Launcher, Subject
from .place import LEASE_S, SWEEP_S, Place
from .subject import Order

# Beyond this, and a little for each job, a run that has not ended has failed.
# As long as something ends, the rest is waited for; then this much longer.
ENDED_WITHIN_S = 60.0
LOOK_EVERY_S = 5.0
# What two busy cores may add to a lease and two sweeps.
MARGIN_S = 10.0


# Kinds of jobs that are handed in together.
PLAIN = ("quick", "threaded", "slow", "second_try", "quick", "hopeless", "frail")
STEPPING = ("pipeline", "pipeline_in_a_thread")

# A launcher for those who start no process.
NO_PROCESSES = Launcher()


@dataclass
class Tally:
    """What a fault did, for the report."""

    fault: str
    store: str
    seed: int
    tried: int
    jobs: int = 0
    violations: list[Violation] = field(default_factory=list)
    recovery_ms: list[int] = field(default_factory=list)
    seconds: float = 0.0
    notes: dict[str, int] = field(default_factory=dict)

    @property
    def lost(self) -> int:
        """Jobs that were accepted and not there, not attempted, or not ended."""
        return len({each.job_id for each in self.violations if each.promise in ("P1", "P2")})

    @property
    def doubled(self) -> int:
        """Jobs that ended, ran or were written twice where once was promised."""
        return len({each.job_id for each in self.violations if each.promise in ("P3", "P4", "P5")})

    def show(self) -> str:
        """Say it in a line."""
        times = sorted(self.recovery_ms)
        recovered = f"{statistics.median(times):.0f}/{times[-1]} ms" if times else "-"
        return (
            f"{self.fault} on {self.store} (seed {self.seed}): {self.tried} tried, {self.jobs} "
            f"jobs, {self.lost} lost, {self.doubled} doubled, recovered in {recovered}, "
            f"{self.seconds:.1f} s {self.notes or ''}"
        )


class Stage:
    """One run on one store."""

    def __init__(self, fault: str, place: Place, launcher: Launcher, seed: int) -> None:
        self.place = place
        self.random = random.Random(seed)
        self.tally = Tally(fault, place.name, seed, tried=0)
        self.submits: list[Submit] = []
        self.orphans: list[Orphan] = []
        self._launcher = launcher
        self._subjects: list[Subject] = []
        self._began = time.monotonic()

    @contextlib.asynccontextmanager
    async def open(self, store: Store | None = None) -> AsyncIterator[Stage]:
        """Open the store and sweep it; leave no process behind."""
        print(f"{self.tally.fault} on {self.place.name}: seed {self.tally.seed}")
        self.store = store or self.place.store()
        await self.store.open()
        # Looks past those who wait for a lock that a process standing still may hold.
        self._eyes = self.place.store()
        await self._eyes.open()
        self.engine = Engine(self.store, app.kinds)
        sweeper = Sweeper(self.store, SystemClock(), lease_s=LEASE_S, sweep_s=SWEEP_S)
        sweeping = asyncio.create_task(sweeper.run())
        try:
            yield self
        finally:
            sweeping.cancel()
            await asyncio.gather(sweeping, return_exceptions=True)
            for subject in self._subjects:
                await subject.kill()
                subject.close()
            await self._eyes.close()
            await self.store.close()

    # --- processes

    def start(
        self,
        *points: str,
        part: str = "worker",
        passes: int = 1,
        told: Sequence[str] = (),
        listening: socket.socket | None = None,
        **settings: object,
    ) -> Subject:
        """Start a process that stops at these points."""
        order = Order(
            part,
            str(self.place.folder),
            self.place.settings(**settings),
            list(points),
            passes,
            list(told),
        )
        subject = self._launcher.start(order, listening)
        self._subjects.append(subject)
        return subject

    async def started(self, *points: str, **options: object) -> Subject:
        """Start a process and wait until it works."""
        subject = self.start(*points, **options)  # type: ignore[arg-type]  # the same options
        assert await subject.says() == "ready", (self.place.folder / "log").read_text()
        return subject

    async def held_by(self, subject: Subject) -> list[Orphan]:
        """Return what a process that stands still holds, as the orphans it would leave now."""
        now = self.engine.clock.now()
        return [
            Orphan(held.lease.job_id, held.lease.fence, now)
            for seen in await self._eyes.workers()
            if seen.info.pid == subject.pid
            for held in await self._eyes.held_by(seen.info.id)
        ]

    async def kill(self, subject: Subject, *, orphans: Sequence[Orphan] = ()) -> None:
        """End a process the hard way."""
        self.orphans += orphans
        await subject.kill()
        self.tally.tried += 1

    async def terminate(self, *subjects: Subject) -> None:
        """End processes politely."""
        for subject in subjects:
            subject.signal(signal.SIGTERM)
        for subject in subjects:
            subject.go(for_good=True)
            await subject.gone()

    # --- jobs

    def new_job(self, kind: str, n: int = 0, tenant: str = DEFAULT_TENANT) -> NewJob:
        now = self.engine.clock.now()
        asked = Submission(kind, json.dumps(n), tenant=tenant, labels={"n": str(n)})
        return prepare(asked, app.kinds, self.engine.new_id(), now)

    async def submit(self, kind: str, n: int = 0, store: Store | None = None) -> str:
        """Hand a job in, however often that takes, and return its id."""
        job = self.new_job(kind, n)
        while True:
            try:
                await (store or self.store).submit(job, self.engine.clock.now())
            except StoreUnavailable:
                self.submits.append(Submit(job.id, answered=False))
                await asyncio.sleep(0.01)  # it is away for a while; there is nothing to wait on
                continue
            self.submits.append(Submit(job.id))
            return job.id

    async def submit_mix(self, count: int, kinds: Sequence[str] = PLAIN) -> list[str]:
        """Hand in jobs of several kinds, in one batch."""
        jobs = [
            self.new_job(self.random.choice(kinds), self.random.randint(1, 30))
            for _ in range(count)
        ]
        await self.store.submit_batch(jobs, self.engine.clock.now())
        self.submits += [Submit(job.id) for job in jobs]
        return [job.id for job in jobs]

    async def all_ended(self) -> None:
        """Wait until every job that was accepted has ended; for as long as any other does."""
        until, depths = time.monotonic() + ENDED_WITHIN_S, await self._depths()
        for job_id in {submit.job_id for submit in self.submits if submit.answered}:
            while True:
                try:
                    job = await self.engine.wait(job_id, LOOK_EVERY_S)
                    if job.finished_at is not None:
                        break
                    if (now := await self._depths()) != depths:
                        until, depths = time.monotonic() + ENDED_WITHIN_S, now
                except StoreUnavailable:
                    await asyncio.sleep(0.05)
                    continue
                assert time.monotonic() < until, await self._stuck(job)

    async def _depths(self) -> list[object]:
        return list(await self.store.queues())

    async def _stuck(self, job: Job) -> str:
        why = await self.engine.explain(job)
        steps = await self.store.steps(job.tenant, job.id)
        return f"not ended: {job}, {why}, {steps}, {await self.store.workers()}"

    # --- the end

    async def check(
        self, *, key_label: str | None = None, margin_s: float = MARGIN_S, ended: bool = True
    ) -> Tally:
        """Read all that is known of the run and have it checked."""
        records = await read_records(self.store, self.submits, key_label=key_label)
        run = Run(
            self.submits,
            records,
            ended=ended,
            live_workers=[seen.info.id for seen in await self.store.workers()],
            effects=EffectLog(self.place.folder / "effects").read(),
            orphans=self.orphans,
            bounds=Bounds(LEASE_S, SWEEP_S, margin_s),
        )
        tally = self.tally
        tally.violations = [*violations_of(run), *_wrong_results(records)]
        tally.jobs = sum(record.job is not None for record in records)
        since = {(orphan.job_id, orphan.fence): orphan.since for orphan in self.orphans}
        tally.recovery_ms = [
            at - since[record.id, fence]
            for record in records
            for fence, at in replay(record.events, first_fence(record)).lost
            if (record.id, fence) in since
        ]
        tally.seconds = time.monotonic() - self._began
        print(tally.show())
        return tally


def _wrong_results(records: Sequence[JobRecord]) -> Iterator[Violation]:
    """Jobs made of steps whose result is not that of an undisturbed run."""
    for record in records:
        job = record.job
        if job is None or job.kind not in STEPPING or job.state is not State.SUCCEEDED:
            continue
        found, due = json.loads(job.result or "")["n"], worked_out(int(job.labels["n"]))
        if found != due:
            yield Violation("P4", job.id, f"its result is {found}, undisturbed it is {due}")
