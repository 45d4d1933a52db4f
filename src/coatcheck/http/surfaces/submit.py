"""What a surface asks of the engine on behalf of whoever called it: within their key, for their
tenant, under their idempotency key, correlation id and trace.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.engine.submit.submit import Submitted
from coatcheck.errors import NotFound
from coatcheck.http.auth.caller import tenant_of
from coatcheck.http.auth.readers import check_reader
from coatcheck.http.jobs.handlers import admitted, read_traceparent
from coatcheck.http.request.idempotency import once_for
from coatcheck.logs import correlation_id
from coatcheck.model.access import TenantStatus
from coatcheck.model.job import Job
from coatcheck.store.base import Store


def submission_for(request: Request, submission: Submission) -> Submission:
    """Return a submission in the caller's name; raises where their key is not for its kind."""
    named = submission._replace(
        correlation_id=correlation_id.get(), traceparent=read_traceparent(request)
    )
    return admitted(request, named)


async def submit_for(request: Request, submission: Submission, body: Any) -> Job:
    """Submit a job for the caller. Under an Idempotency-Key, return the job of the earlier request;
    `body` is what has to be the same for it to be that request again.
    """
    return (await submitted_for(request, submission, body)).jobs[0]


async def submitted_for(request: Request, submission: Submission, body: Any) -> Submitted:
    """Do the same, and tell whether it is the job of an earlier request."""
    engine: Engine = request.app.state.engine
    asked = submission_for(request, submission)
    once = once_for(request, body)
    if once is None:
        return Submitted([await engine.submit(asked)], replayed=False)
    return await engine.submit_once(asked, once)


async def is_active(store: Store, tenant: str) -> bool:
    """Tell whether a tenant is active. Links that need no key are closed while it is not."""
    found = await store.access.get_tenant(tenant)
    return found is None or found.status is TenantStatus.ACTIVE


async def find_for(request: Request, job_id: str, surface: str) -> Job:
    """Read a job of the caller that came in by this surface; raises NotFound, Gone."""
    engine: Engine = request.app.state.engine
    job = await engine.get(job_id, tenant_of(request))
    if job.surface != surface:
        raise NotFound(f"there is no job {job_id} here")
    check_reader(request, job, job_id)
    return job
