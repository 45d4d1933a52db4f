"""What a checker is given: all that is known of a run, gathered when it is over."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from coatcheck.errors import Gone, NotFound
from coatcheck.model.event import JobEvent
from coatcheck.model.job import DEFAULT_TENANT, Job
from coatcheck.store.base import JobFilter, Store
from coatcheck.testing.checker.effects import Effect

_PAGE = 1_000


class Submit(NamedTuple):
    """A submit that was sent. `key` names what may happen once however often it is sent; an answer
    that never came leaves `answered` False, and `job_id` empty where only the answer tells it.
    """

    job_id: str
    answered: bool = True
    key: str | None = None
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class JobRecord:
    """What the store says of a job at the end: its row, or that it is gone, and its log."""

    tenant: str
    id: str
    job: Job | None
    gone: bool
    events: tuple[JobEvent, ...]
    key: str | None = None  # of its submit, where the run labels jobs with it


def first_fence(record: JobRecord) -> int:
    """Return the fence before the first claim: a fork begins as if it had been claimed before."""
    return 0 if record.job is None or record.job.forked_from is None else 1


class Orphan(NamedTuple):
    """A job whose worker ceased to live at this time (milliseconds since the epoch)."""

    job_id: str
    fence: int
    since: int


class ReceivedWebhook(NamedTuple):
    """A receiver got a webhook."""

    job_id: str
    event: str
    webhook_id: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long an orphan may stay one. `margin_s` is for a machine that is busy with the test."""

    lease_s: float
    sweep_s: float
    margin_s: float = 0.0

    @property
    def milliseconds(self) -> float:
        """Return one lease and two sweeps, with the margin."""
        return 1000 * (self.lease_s + 2 * self.sweep_s + self.margin_s)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """All that is known of a run. What is None was not watched, and is not checked."""

    submits: Sequence[Submit]
    records: Sequence[JobRecord]
    live_workers: Collection[str] = ()
    ended: bool = True  # whether every job must have ended by now
    effects: Sequence[Effect] | None = None
    orphans: Sequence[Orphan] | None = None
    bounds: Bounds | None = None
    deliveries: Sequence[ReceivedWebhook] | None = None
    owed_deliveries: Collection[tuple[str, str]] = ()  # (job id, event)
    purged: Collection[str] | None = None
    tables: Mapping[str, Sequence[Sequence[object]]] = field(default_factory=dict)


async def read_records(
    store: Store, submits: Sequence[Submit], *, key_label: str | None = None
) -> list[JobRecord]:
    """Read every job of the tenants that submitted, and those submitted jobs that are not there."""
    found: dict[tuple[str, str], JobRecord] = {}
    for tenant in sorted({submit.tenant for submit in submits}):
        before: str | None = None
        while jobs := await store.jobs.list_jobs(JobFilter(tenant, before=before, limit=_PAGE)):
            before = jobs[-1].id
            # A list leaves the results out.
            for job in await store.jobs.get_many([(tenant, job.id) for job in jobs]):
                key = job.labels.get(key_label) if key_label else None
                events = await _events(store, tenant, job.id)
                found[tenant, job.id] = JobRecord(tenant, job.id, job, False, events, key)
    for submit in submits:
        place = (submit.tenant, submit.job_id)
        if submit.job_id and place not in found:
            gone = await _is_gone(store, *place)
            found[place] = JobRecord(*place, None, gone, ())
    return list(found.values())


async def _events(store: Store, tenant: str, job_id: str) -> tuple[JobEvent, ...]:
    events: list[JobEvent] = []
    while page := await store.jobs.list_events(
        tenant, job_id, events[-1].seq if events else 0, _PAGE
    ):
        events += page
    return tuple(events)


async def _is_gone(store: Store, tenant: str, job_id: str) -> bool:
    try:
        await store.jobs.get(tenant, job_id)
    except Gone:
        return True
    except NotFound:
        return False
    return False
