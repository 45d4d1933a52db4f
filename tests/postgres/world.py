"""What a scenario acts on, and what it remembers of what it was promised."""

from __future__ import annotations

import random
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from coatcheck.errors import Conflict, Gone, InputGone, NotFound, UploadGone
from coatcheck.model.event import EventType, NewJobEvent
from coatcheck.model.job import Failure, JobInsert, Lease
from coatcheck.model.limit import Limit
from coatcheck.model.outcome import Errored, GaveUp, Outcome, Released, Succeeded, Waiting
from coatcheck.model.step import Step
from coatcheck.store.base import NO_LIMITS, Report, Settlement, Topic
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.store.rekey import EncryptedColumn, TextChange
from coatcheck.testing.conformance.arrange import (
    NOW,
    TENANT,
    WORKER,
    child_of,
    new_job,
    worker_info,
)
from tests.postgres.schedule import Schedule

BOOM = Failure("boom", "it went wrong")
LATER = NOW + 1_000
# What a caller may hear where another was first.
REFUSALS = (Conflict, Gone, NotFound, InputGone, UploadGone)


class World:
    """Two stores, the order in which their statements go, and what was promised so far."""

    def __init__(self, stores: Sequence[PostgresStore], schedule: Schedule, observer: Any) -> None:
        self.stores = stores
        self.schedule = schedule
        self.observer = observer
        self.schema = stores[0]._sql.schema
        self.random: random.Random = schedule.random
        self.leases: list[tuple[Lease, str]] = []
        self.settled: list[tuple[Lease, Outcome, bool]] = []
        self.steps: list[tuple[str, int]] = []
        self.groups: dict[str, tuple[tuple[str, ...], ...]] = {}
        self.sent: list[tuple[str, str]] = []
        self.resumed: set[str] = set()
        self.asked: dict[str, int] = {}  # what was told when a worker last asked for jobs

    @property
    def store(self) -> PostgresStore:
        """Either of the stores."""
        return self.random.choice(self.stores)

    async def rows(self, sql: str, *values: Any) -> list[Any]:
        """Read what is committed; `@` stands for the schema."""
        found: list[Any] = await self.observer.fetch(sql.replace("@", f'"{self.schema}"'), *values)
        return found

    async def together(self, *operations: Coroutine[Any, Any, Any] | None) -> list[Any]:
        """Run operations beside each other. A refusal is an answer; any other error is a bug."""
        answers = await self.schedule.together([each for each in operations if each is not None])
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, REFUSALS):
                raise AssertionError(f"somebody was told {answer!r}") from answer
        return answers

    def maybe(
        self, operation: Coroutine[Any, Any, Any], chance: float = 0.5
    ) -> Coroutine[Any, Any, Any] | None:
        """Return an operation, or drop it."""
        if self.random.random() < chance:
            return operation
        operation.close()
        return None

    def outcome(self, *, ends: bool = False) -> Outcome:
        """Return some way for an attempt to end; with `ends` one after which the job has ended."""
        ways: list[Outcome] = [Succeeded("1"), Succeeded("1"), GaveUp(BOOM)]
        if not ends:
            ways += [Errored(BOOM, 0), Released(0)]
        return self.random.choice(ways)

    def told(self) -> int:
        """Return how often workers were told that there may be work."""
        stores: list[Any] = list(self.stores)
        return sum(store._notifications.topics.count(Topic.WORK) for store in stores)

    # --- what operations do, each through the store that it is given

    async def work(self, *workers: str) -> None:
        """Make workers known."""
        for worker in workers or (WORKER,):
            await self.stores[0].workers.register_worker(worker_info(worker))

    async def claim(
        self,
        store: PostgresStore,
        kinds: Sequence[str],
        worker: str = WORKER,
        limit: int = 10,
        limits: Mapping[str, Limit] = NO_LIMITS,
    ) -> list[Lease]:
        """Claim jobs, and remember who was given which."""
        self.asked[worker] = self.told()
        claimed = await store.workers.claim(worker, kinds, limit, NOW, limits)
        leases = [each.lease for each in claimed.claims]
        self.leases += [(lease, worker) for lease in leases]
        return leases

    async def running(
        self, store: PostgresStore, count: int = 1, kind: str = "mail", **fields: Any
    ) -> list[Lease]:
        """Have a worker run new jobs."""
        jobs = [job_for_long(kind, **fields) for _ in range(count)]
        await store.jobs.submit_batch(jobs, NOW)
        return sorted(await self.claim(store, [kind], limit=count))

    async def settle(self, store: PostgresStore, *ends: tuple[Lease, Outcome]) -> None:
        """End attempts in one write."""
        answers = await store.workers.settle([Settlement(*end) for end in ends], LATER)
        for (lease, outcome), answer in zip(ends, answers, strict=True):
            self.settled.append((lease, outcome, answer))
            if isinstance(outcome, Waiting) and answer:
                self.groups[lease.job_id] = outcome.groups

    async def report(self, store: PostgresStore, lease: Lease, *steps: Step) -> None:
        """Write steps down."""
        if await store.workers.report(lease, Report(steps=steps), LATER):
            self.steps += [(lease.job_id, step.seq) for step in steps]

    async def log(self, store: PostgresStore, lease: Lease) -> None:
        """Add an entry to a job's log."""
        await store.workers.report(
            lease, Report(events=(NewJobEvent(EventType.LOG, '{"n":1}'),)), LATER
        )

    async def say_nothing(self, store: PostgresStore, lease: Lease) -> None:
        """Write a report that says nothing new."""
        await store.workers.report(lease, Report(), LATER)

    async def spawn(self, store: PostgresStore, lease: Lease, count: int = 1) -> list[JobInsert]:
        """Have a running job spawn others."""
        children = tuple(lasting(child_of(lease)) for _ in range(count))
        await store.workers.report(lease, Report(children=children), LATER)
        return list(children)

    async def send(self, store: PostgresStore, job_id: str, name: str) -> None:
        """Send an event."""
        await store.jobs.send_event(TENANT, job_id, name, "1", LATER)
        self.sent.append((job_id, name))

    async def cancel(self, store: PostgresStore, job_id: str) -> None:
        """Cancel a job."""
        await store.jobs.cancel(TENANT, job_id, LATER)

    async def resume(self, store: PostgresStore, job_id: str) -> None:
        """Resume a job."""
        await store.jobs.resume(TENANT, job_id, LATER)
        self.resumed.add(job_id)

    async def delete(self, store: PostgresStore, job_id: str) -> None:
        """Delete a job."""
        await store.jobs.delete(TENANT, job_id, LATER)

    async def remove(self, store: PostgresStore, worker: str) -> None:
        """Take a worker for lost."""
        await store.workers.remove_worker(worker, 0, LATER)

    async def limit(self, store: PostgresStore, most: int = 5) -> None:
        """Give the jobs' queue a limit, for which what runs counts."""
        await store.queues.limit_queue("default", most)

    async def replace(self, store: PostgresStore, changes: Sequence[TextChange]) -> None:
        """Write inputs anew, as when their key is changed."""
        await store.rekey.replace_texts(EncryptedColumn("jobs", ("tenant", "id"), "input"), changes)

    async def sweep(self, store: PostgresStore, now: int = LATER) -> None:
        """Sweep once."""
        await store.maintenance.sweep(now)


def lasting(job: JobInsert, attempts: int = 5) -> JobInsert:
    """Return a job with attempts left."""
    return job._replace(terms=job.terms._replace(max_attempts=attempts))


def job_for_long(kind: str = "mail", **fields: Any) -> JobInsert:
    """Return a new job with attempts left."""
    return lasting(new_job(kind, **fields))
