"""A stage: a store, the processes on it, the requests made to them, and finally the checker.

The test process submits, sweeps and injects faults; jobs run in processes that a launcher forks.
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
from coatcheck.egress.policy import EgressPolicy
from coatcheck.engine.engine import Engine
from coatcheck.engine.maintenance.sweep import Sweeper
from coatcheck.engine.submit.submission import Submission, prepare
from coatcheck.errors import Conflict, StoreUnavailable
from coatcheck.model.job import DEFAULT_TENANT, Job, JobInsert
from coatcheck.model.state import State
from coatcheck.store.base import Store
from coatcheck.testing.checker import (
    Bounds,
    EffectLog,
    JobRecord,
    Orphan,
    RunRecord,
    Submit,
    Violation,
    read_records,
    violations_of,
)
from coatcheck.testing.checker.replay import replay
from coatcheck.testing.checker.run import first_fence

from .app import worked_out, worked_out_apart
from .launcher import Launcher, Subject
from .place import HERE, LEASE_S, SWEEP_S, Place
from .subject import APPS, Order
from .webhook_receiver import deliver_the_rest, hearing

# Beyond this, and a little for each job, a run that has not ended has failed.
# As long as something ends, the rest is waited for; then this much longer.
ENDED_WITHIN_S = 60.0
LOOK_EVERY_S = 5.0
# What two busy cores may add to a lease and two sweeps: at a load of twenty it was 2.4 s. The
# promise itself is held to the millisecond by test_orphans_return.py, on a clock that is told.
MARGIN_S = 6.0


# Kinds of jobs that are handed in together.
PLAIN = ("quick", "threaded", "slow", "second_try", "quick", "hopeless", "frail")
STEPPING = ("pipeline", "pipeline_in_a_thread")
APART = ("apart", "apart_async")
# What comes of jobs that are made of steps, undisturbed.
WORKED_OUT = dict.fromkeys(STEPPING, worked_out) | dict.fromkeys(APART, worked_out_apart)
# Of one in so many that are handed in together a receiver hears.
HEARD_OF = 4

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
    heard: int = 0  # ends of jobs that a receiver was owed
    purged: int = 0

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
            f"{self.heard} heard of, {self.purged} deleted, {self.seconds:.1f} s "
            f"{self.notes or ''}"
        )


class Stage:
    """One run on one store."""

    def __init__(
        self,
        fault: str,
        place: Place,
        launcher: Launcher,
        seed: int,
        *,
        app: str = "app",
        lease_s: float = LEASE_S,
    ) -> None:
        self.place = place
        self.kinds = APPS[app].kinds
        self.random = random.Random(seed)
        self.tally = Tally(fault, place.name, seed, tried=0)
        self.submits: list[Submit] = []
        self.orphans: list[Orphan] = []
        self.purged: set[str] = set()
        self._childless: list[str] = []  # a child names its parent for as long as it is there
        self._app = app
        self._lease_s = lease_s
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
        self.engine = Engine(self.store, self.kinds, egress=EgressPolicy(HERE))
        sweeper = Sweeper(self.store, SystemClock(), lease_s=self._lease_s, sweep_s=SWEEP_S)
        sweeping = asyncio.create_task(sweeper.run())
        try:
            async with hearing(self.engine) as self.hearing:
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
            self.place.settings(**{"lease_s": self._lease_s, **settings}),
            list(points),
            passes,
            list(told),
            self._app,
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
            for seen in await self._eyes.workers.list_workers()
            if seen.info.pid == subject.pid
            for held in await self._eyes.workers.list_held_jobs(seen.info.id)
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

    def new_job(self, kind: str, n: int = 0, tenant: str = DEFAULT_TENANT) -> JobInsert:
        now = self.engine.clock.now()
        submitted = Submission(kind, json.dumps(n), tenant=tenant, labels={"n": str(n)})
        return prepare(submitted, self.kinds, self.engine.new_id(), now)

    async def submit(self, kind: str, n: int = 0, store: Store | None = None) -> str:
        """Hand a job in, however often that takes, and return its id."""
        job = self.new_job(kind, n)
        while True:
            try:
                await (store or self.store).jobs.submit(job, self.engine.clock.now())
            except StoreUnavailable:
                self.submits.append(Submit(job.id, answered=False))
                await asyncio.sleep(0.01)  # it is away for a while; there is nothing to wait on
                continue
            self.submits.append(Submit(job.id))
            return job.id

    async def submit_mix(self, count: int, kinds: Sequence[str] = PLAIN) -> list[str]:
        """Hand in jobs of several kinds, in one batch; of some a receiver wants to hear."""
        jobs = [
            self.new_job(self.random.choice(kinds), self.random.randint(1, 30))
            for _ in range(count)
        ]
        for number in range(0, count, HEARD_OF):
            jobs[number] = await self.hearing.ask(jobs[number])
        await self.store.jobs.submit_batch(jobs, self.engine.clock.now())
        self.submits += [Submit(job.id) for job in jobs]
        self._childless += [job.id for job in jobs if job.kind not in STEPPING]
        return [job.id for job in jobs]

    async def delete_one(self) -> None:
        """Delete a job that has ended, if a look at a few of them finds one."""
        for job_id in self.random.sample(self._childless, min(5, len(self._childless))):
            if job_id not in self._childless:
                continue  # another task has had it meanwhile
            self._childless.remove(job_id)
            try:
                await self.store.jobs.delete(DEFAULT_TENANT, job_id, self.engine.clock.now())
            except Conflict:
                self._childless.append(job_id)  # it has not ended
                continue
            self.purged.add(job_id)
            return

    async def all_ended(self) -> None:
        """Wait until every job that was accepted has ended; for as long as any other does."""
        until, depths = time.monotonic() + ENDED_WITHIN_S, await self._depths()
        answered = {submit.job_id for submit in self.submits if submit.answered}
        for job_id in answered - self.purged:
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
        return list(await self.store.queues.list_queues())

    async def _stuck(self, job: Job) -> str:
        why = await self.engine.explain(job)
        steps = await self.store.jobs.list_steps(job.tenant, job.id)
        return f"not ended: {job}, {why}, {steps}, {await self.store.workers.list_workers()}"

    # --- the end

    async def check(
        self, *, key_label: str | None = None, margin_s: float = MARGIN_S, ended: bool = True
    ) -> Tally:
        """Read all that is known of the run and have it checked."""
        await deliver_the_rest(self.store, self.kinds)
        records = await read_records(self.store, self.submits, key_label=key_label)
        run = RunRecord(
            self.submits,
            records,
            ended=ended,
            live_workers=[seen.info.id for seen in await self.store.workers.list_workers()],
            effects=EffectLog(self.place.folder / "effects").read(),
            orphans=self.orphans,
            bounds=Bounds(self._lease_s, SWEEP_S, margin_s),
            deliveries=self.hearing.heard,
            owed_deliveries=self.hearing.owed(records),
            purged=self.purged,
            tables=await self.place.dump() if self.purged else {},
        )
        tally = self.tally
        tally.violations = [*violations_of(run), *_wrong_results(records)]
        tally.jobs = sum(record.job is not None or record.gone for record in records)
        tally.heard, tally.purged = len(run.owed_deliveries), len(self.purged)
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
        if job is None or job.kind not in WORKED_OUT or job.state is not State.SUCCEEDED:
            continue
        due = WORKED_OUT[job.kind](int(job.labels["n"]))
        found = json.loads(job.result or "")["n"]
        if found != due:
            yield Violation("P4", job.id, f"its result is {found}, undisturbed it is {due}")
