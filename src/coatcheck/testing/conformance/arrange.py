"""What the tests of a store begin with: plain jobs and workers, and times that are just numbers."""

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

# When every test begins. Only differences between times matter.
NOW = 1_700_000_000_000
TENANT = DEFAULT_TENANT
WORKER = "worker-1"
OTHER_WORKER = "worker-2"
BOOM = Failure("boom", "it went wrong", detail='{"line":7}', retryable=True)

_numbers = itertools.count(1)


class Conformance:
    """Runs async tests on asyncio; the fixture `store` comes from whoever tests a store."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        """The engine runs on asyncio."""
        return "asyncio"

    @pytest.fixture
    async def worker(self, store: Store) -> str:
        """Register a worker."""
        await store.workers.register_worker(worker_info(WORKER))
        return WORKER

    @pytest.fixture
    async def other_worker(self, store: Store) -> str:
        """Register one more worker."""
        await store.workers.register_worker(worker_info(OTHER_WORKER))
        return OTHER_WORKER


def new_id(created_at: int = NOW) -> str:
    """Return a ULID of that time, larger than any made before for the same time."""
    return first_ulid_at(created_at)[:10] + f"{next(_numbers):016d}"


def new_job(kind: str = "mail", *, created_at: int = NOW, **fields: Any) -> JobInsert:
    """Return a job with an id of its own, due at once unless told."""
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
    """Return a step that has run, the first of its name."""
    known = {
        "id": StepId(Op.STEP, name, None, 0),
        "state": StepState.SUCCEEDED,
        "started_at": NOW,
        "finished_at": NOW + 1,
        "result": f'"{name}"',
    }
    return Step(seq, **known | fields)  # type: ignore[arg-type]  # named fields


def child_of(parent: Lease, **fields: Any) -> JobInsert:
    """Return a job of kind `child`, spawned by the one that a lease is for."""
    job = new_job("child", tenant=parent.tenant, **fields)
    return job._replace(terms=job.terms._replace(parent=parent.job_id))


async def spawn(store: Store, parent: Lease, count: int = 1, **fields: Any) -> list[JobInsert]:
    """Have a running job spawn others, and return them."""
    children = tuple(child_of(parent, **fields) for _ in range(count))
    assert await store.workers.report(parent, Report(children=children), NOW)
    return list(children)


async def claim(
    store: Store, *kinds: str, worker: str = WORKER, limit: int = 100, now: int = NOW
) -> list[Claim]:
    """Claim jobs of these kinds (mail), and return only them."""
    return (await store.workers.claim(worker, kinds or ("mail",), limit, now)).claims


async def claimed_ids(
    store: Store, *kinds: str, worker: str = WORKER, limit: int = 100, now: int = NOW
) -> list[str]:
    """Claim jobs and return their ids in the order they came."""
    claims = await claim(store, *kinds, worker=worker, limit=limit, now=now)
    return [claim.lease.job_id for claim in claims]


async def run_job(
    store: Store, job: JobInsert | None = None, *, worker: str = WORKER, now: int = NOW
) -> Lease:
    """Submit a job, have the worker claim it, and return the lease."""
    job = job or new_job()
    await store.jobs.submit(job, now)
    return await reclaim(store, job.id, job.kind, worker=worker, now=now)


async def reclaim(
    store: Store, job_id: str, kind: str = "mail", *, worker: str = WORKER, now: int = NOW
) -> Lease:
    """Claim a job that is the only one to be claimed."""
    [claimed] = await claim(store, kind, worker=worker, now=now)
    assert claimed.lease.job_id == job_id
    return claimed.lease


async def settle(store: Store, lease: Lease, outcome: Outcome, now: int = NOW) -> bool:
    """End one attempt."""
    [settled] = await store.workers.settle([Settlement(lease, outcome)], now)
    return settled


async def cancel_requests(store: Store, worker: str) -> list[Lease]:
    """Return what a worker holds that somebody wants cancelled."""
    return [
        held.lease for held in await store.workers.list_held_jobs(worker) if held.cancel_requested
    ]


async def job_of(store: Store, lease: Lease) -> Job:
    """Read the job a lease is for."""
    return await store.jobs.get(lease.tenant, lease.job_id)


async def states_of(store: Store, job_id: str, tenant: str = TENANT) -> list[str]:
    """Return the states a job's log tells of, in order."""
    return [
        json.loads(event.data)["state"]
        for event in await store.jobs.list_events(tenant, job_id, 0, 1000)
        if event.type is EventType.STATE
    ]


async def everything(store: Store, tenant: str = TENANT) -> list[Job]:
    """Return every job of a tenant, newest first."""
    return await store.jobs.list_jobs(JobFilter(tenant, limit=1_000_000))
