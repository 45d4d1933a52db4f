"""Engine calls that a surface makes for its caller.

Each call has the caller's key, tenant, idempotency key, correlation id and trace context.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.engine.submit.submitter import Submitted
from coatcheck.errors import NotFound
from coatcheck.http.auth.caller import tenant_of
from coatcheck.http.auth.readers import check_reader
from coatcheck.http.jobs.handlers import authorize_submission, read_traceparent
from coatcheck.http.request.idempotency import read_idempotency_key
from coatcheck.logs import correlation_id
from coatcheck.model.access import TenantStatus
from coatcheck.model.job import Job
from coatcheck.store.base import Store


def bind_submission(request: Request, submission: Submission) -> Submission:
    """Return a submission in the caller's name; raise Forbidden if the key excludes its kind."""
    bound = submission._replace(
        correlation_id=correlation_id.get(), traceparent=read_traceparent(request)
    )
    return authorize_submission(request, bound)


async def submit_job(request: Request, submission: Submission, body: Any) -> Job:
    """Submit a job for the caller. With an Idempotency-Key, return the job of the earlier request.

    `body` is the part of the request that the fingerprint covers.
    """
    return (await submit_idempotent(request, submission, body)).jobs[0]


async def submit_idempotent(request: Request, submission: Submission, body: Any) -> Submitted:
    """Submit a job for the caller; return it, and whether an earlier request had submitted it."""
    engine: Engine = request.app.state.engine
    bound = bind_submission(request, submission)
    key = read_idempotency_key(request, body)
    if key is None:
        return Submitted([await engine.submit(bound)], replayed=False)
    return await engine.submit_idempotent(bound, key)


async def is_active(store: Store, tenant: str) -> bool:
    """Return whether a tenant is active. Capability links of an inactive tenant are closed."""
    found = await store.access.get_tenant(tenant)
    return found is None or found.status is TenantStatus.ACTIVE


async def find_job(request: Request, job_id: str, surface: str) -> Job:
    """Read a job of the caller that belongs to this surface; raises NotFound, Gone."""
    engine: Engine = request.app.state.engine
    job = await engine.get(job_id, tenant_of(request))
    if job.surface != surface:
        raise NotFound(f"there is no job {job_id} here")
    check_reader(request, job, job_id)
    return job
