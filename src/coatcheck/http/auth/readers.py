"""Read access to jobs.

A job belongs to its tenant. Its surface may restrict access further (`Surface.check_reader`): a
relayed request is visible only to the caller that made it. The check runs before the handler of
every endpoint whose path names a job (app.py), so no handler has to remember it. Lists and bulk
operations skip jobs that the caller may not read. Such a job answers like an id that does not
exist.

- A job with an owner whose surface is not served here is closed: this server cannot identify the
  owner.
- An endpoint that manages a job and shows nothing of its payload (`Endpoint.for_operators`) is also
  open to callers with `admin`, because they have to see and stop running jobs.
- Endpoints of workers are not restricted: a worker runs the jobs of every caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.requests import Request

from coatcheck.engine.auth import Caller
from coatcheck.engine.engine import Engine
from coatcheck.errors import NotFound
from coatcheck.http.endpoint import Endpoint
from coatcheck.model.access import Scope
from coatcheck.model.job import OWNER_LABEL, Job

if TYPE_CHECKING:  # a surface imports endpoints, which use this module
    from coatcheck.http.surfaces.base import Surface


def surface_of(request: Request, job: Job) -> Surface | None:
    """Return the surface of a job, if it is served here."""
    surfaces: Mapping[str, Surface] = request.app.state.surfaces
    return surfaces.get(job.surface)


def may_read(request: Request, job: Job) -> bool:
    """Return whether the caller may read a job."""
    if request.scope.get("coatcheck.reader_of") == job.id:
        return True  # a wrapped app has checked its caller itself (middleware/job_routes.py)
    surface = surface_of(request, job)
    if surface is None:
        return OWNER_LABEL not in job.labels
    try:
        surface.check_reader(request, job)
    except NotFound:
        return False
    return True


def may_manage(request: Request, job: Job) -> bool:
    """Return whether the caller may see that a job exists, and stop or delete it."""
    caller: Caller = request.scope["coatcheck.caller"]
    return caller.may(Scope.ADMIN) or may_read(request, job)


def check_reader(request: Request, job: Job, job_id: str) -> None:
    """Raise NotFound, as for an unknown id, unless the caller may read a job."""
    if not may_read(request, job):
        raise NotFound(f"there is no job {job_id}")


async def check_named_job(request: Request, endpoint: Endpoint) -> None:
    """Raise NotFound unless the caller may use this endpoint on the job that its path names."""
    if endpoint.scope in (None, Scope.WORK):
        return
    job = await named_job(request)
    if endpoint.for_operators and may_manage(request, job):
        return
    check_reader(request, job, request.path_params["job_id"])


async def named_job(request: Request) -> Job:
    """Read the job that the path names, once per request; raise NotFound or Gone.

    A result in the blob store is not loaded.
    """
    scope = request.scope
    if "coatcheck.job" not in scope:
        engine: Engine = request.app.state.engine
        job_id = request.path_params["job_id"]
        scope["coatcheck.job"] = await engine.get_without_result(job_id, scope["coatcheck.tenant"])
    job: Job = scope["coatcheck.job"]
    return job
