"""Shared fixtures and builders for the store tests: jobs, workers, leases and fixed times."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from coatcheck.ids import first_ulid_at
from coatcheck.model.event import EventType
from coatcheck.model.job import DEFAULT_TENANT, Claim, Failure, Job, JobInsert, Lease
from coatcheck.model.outcome import Outcome
from coatcheck.model.step import Op, Step, StepId, StepState
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import JobFilter, Report, Settlement, Store

# The start time of every test. Only differences between times matter.
NOW = 1_700_000_000_000
TENANT = DEFAULT_TENANT
WORKER = "worker-1"
OTHER_WORKER = "worker-2"
BOOM = Failure("boom", "it went wrong", detail='{"line":7}', retryable=True)

_numbers = itertools.count(1)


class Conformance:
    """Base class of the conformance tests; the module that uses it provides `store`."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        """Run the tests on asyncio, like the engine."""
        return "asyncio"

    @pytest.fixture
    async def worker(self, store: Store) -> str:
        """Register a worker."""
        await store.workers.register_worker(worker_info(WORKER))
        return WORKER

    @pytest.fixture
    async def other_worker(self, store: Store) -> str:
        """Register a second worker."""
        await store.workers.register_worker(worker_info(OTHER_WORKER))
        return OTHER_WORKER


def new_id(created_at: int = NOW) -> str:
    """Return a ULID for this time that sorts after every earlier one for the same time."""
    return first_ulid_at(created_at)[:10] + f"{next(_numbers):016d}"


def new_job(kind: str = "mail", *, created_at: int = NOW, **fields: Any) -> JobInsert:
    """Return a job with a new id that is due immediately unless `fields` says otherwise."""
    job = JobInsert(
        id=new_id(created_at), kind=kind, input='{"n":1}', created_at=created_at, run_at=created_at
    )
    return job._replace(**fields)


def worker_info(worker_id: str) -> WorkerInfo:
    """Return a worker that has just started."""
    return WorkerInfo(
        id=worker_id, host="here", pid=4711, kinds=("mail", "chart"), slots=8, started_at=NOW
    )


def new_step(seq: int = 0, name: str = "extract", **fields: Any) -> Step:
    """Return a succeeded step, the first with its name."""
    known = {
        "id": StepId(Op.STEP, name, None, 0),
        "state": StepState.SUCCEEDED,
        "started_at": NOW,
        "finished_at": NOW + 1,
        "result": f'"{name}"',
    }
    return Step(seq, **known | fields)  # type: ignore[arg-type]  # named fields


def child_of(parent: Lease, **fields: Any) -> JobInsert:
    """Return a job of kind `child` whose parent is the leased job."""
    job = new_job("child", tenant=parent.tenant, **fields)
    return job._replace(terms=job.terms._replace(parent=parent.job_id))


async def spawn(store: Store, parent: Lease, count: int = 1, **fields: Any) -> list[JobInsert]:
    """Spawn children from a running job and return them."""
    children = tuple(child_of(parent, **fields) for _ in range(count))
    assert await store.workers.report(parent, Report(children=children), NOW)
    return list(children)


async def claim(
    store: Store, *kinds: str, worker: str = WORKER, limit: int = 100, now: int = NOW
) -> list[Claim]:
    """Claim jobs of these kinds (default: mail) and return the claims."""
    return (await store.workers.claim(worker, kinds or ("mail",), limit, now)).claims


async def claimed_ids(
    store: Store, *kinds: str, worker: str = WORKER, limit: int = 100, now: int = NOW
) -> list[str]:
    """Claim jobs and return their ids in claim order."""
    claims = await claim(store, *kinds, worker=worker, limit=limit, now=now)
    return [claim.lease.job_id for claim in claims]


async def run_job(
    store: Store, job: JobInsert | None = None, *, worker: str = WORKER, now: int = NOW
) -> Lease:
    """Submit a job, claim it for the worker, and return the lease."""
    job = job or new_job()
    await store.jobs.submit(job, now)
    return await reclaim(store, job.id, job.kind, worker=worker, now=now)


async def reclaim(
    store: Store, job_id: str, kind: str = "mail", *, worker: str = WORKER, now: int = NOW
) -> Lease:
    """Claim the only claimable job and return its lease."""
    [claimed] = await claim(store, kind, worker=worker, now=now)
    assert claimed.lease.job_id == job_id
    return claimed.lease


async def settle(store: Store, lease: Lease, outcome: Outcome, now: int = NOW) -> bool:
    """Settle one attempt."""
    [settled] = await store.workers.settle([Settlement(lease, outcome)], now)
    return settled


async def cancel_requests(store: Store, worker: str) -> list[Lease]:
    """Return the leases of a worker's jobs for which cancellation was requested."""
    return [
        held.lease for held in await store.workers.list_held_jobs(worker) if held.cancel_requested
    ]


async def job_of(store: Store, lease: Lease) -> Job:
    """Return the leased job."""
    return await store.jobs.get(lease.tenant, lease.job_id)


async def states_of(store: Store, job_id: str, tenant: str = TENANT) -> list[str]:
    """Return the states recorded in a job's event log, in order."""
    return [
        json.loads(event.data)["state"]
        for event in await store.jobs.list_events(tenant, job_id, 0, 1000)
        if event.type is EventType.STATE
    ]


async def everything(store: Store, tenant: str = TENANT) -> list[Job]:
    """Return every job of a tenant, newest first."""
    return await store.jobs.list_jobs(JobFilter(tenant, limit=1_000_000))
