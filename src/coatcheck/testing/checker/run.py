"""Input of the checker: everything known about a finished run."""

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
    """A submit that was sent.

    `key` identifies submits that may take effect only once, however often they are sent. If no
    answer arrived, `answered` is False, and `job_id` is empty if only the answer contains it.
    """

    job_id: str
    answered: bool = True
    key: str | None = None
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The stored data of a job at the end of a run: its row or tombstone, and its log."""

    tenant: str
    id: str
    job: Job | None
    gone: bool
    events: tuple[JobEvent, ...]
    key: str | None = None  # of its submit, if the run labels jobs with it


def first_fence(record: JobRecord) -> int:
    """Return the fence before the first claim: 1 for a fork, otherwise 0."""
    return 0 if record.job is None or record.job.forked_from is None else 1


class Orphan(NamedTuple):
    """A job whose worker died at this time (milliseconds since the epoch)."""

    job_id: str
    fence: int
    since: int


class ReceivedWebhook(NamedTuple):
    """A webhook that a receiver got."""

    job_id: str
    event: str
    webhook_id: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """The longest time until an orphan is reclaimed; `margin_s` allows for a busy machine."""

    lease_s: float
    sweep_s: float
    margin_s: float = 0.0

    @property
    def milliseconds(self) -> float:
        """Return the sum of one lease, two sweeps and the margin."""
        return 1000 * (self.lease_s + 2 * self.sweep_s + self.margin_s)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Everything known about a run; a field that is None was not observed, so is not checked."""

    submits: Sequence[Submit]
    records: Sequence[JobRecord]
    live_workers: Collection[str] = ()
    ended: bool = True  # whether every job must have finished
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
    """Read every job of the submitting tenants, and a record for each missing job."""
    found: dict[tuple[str, str], JobRecord] = {}
    for tenant in sorted({submit.tenant for submit in submits}):
        before: str | None = None
        while jobs := await store.jobs.list_jobs(JobFilter(tenant, before=before, limit=_PAGE)):
            before = jobs[-1].id
            # A list omits results.
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
