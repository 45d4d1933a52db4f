"""Submit diagrams as jobs."""

from __future__ import annotations

import asyncio
from secrets import token_hex

from starlette.requests import Request

from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.errors import IdTaken, NotFound
from coatcheck.http.auth.caller import tenant_of
from coatcheck.http.request.idempotency import HEADER
from coatcheck.http.surfaces.submit import submit_idempotent, submit_job
from coatcheck.model.job import Job
from coatcheck.model.record import Record
from coatcheck.model.state import State
from coatcheck.surfaces.render import links
from coatcheck.surfaces.render.diagram import KIND, SURFACE, Diagram
from coatcheck.surfaces.render.links import LinkedJob
from coatcheck.surfaces.render.settings import RenderSettings


async def submit(request: Request, diagram: Diagram, settings: RenderSettings) -> Job:
    """Submit a diagram; return the existing job if the request is a replay."""
    while True:
        try:
            return await _submit(request, diagram, settings)
        except IdTaken:
            continue  # one in four billion: choose another id


async def _submit(request: Request, diagram: Diagram, settings: RenderSettings) -> Job:
    engine: Engine = request.app.state.engine
    submission = submission_of(request, diagram)
    digest = links.digest_of(diagram)
    link, cache = records_of(engine, diagram, submission, settings)
    put = engine.store.records.put_record
    if HEADER not in request.headers:
        # Written concurrently, so they share a commit; a link without a job leads nowhere.
        job = submit_job(request, submission, digest)
        return (await asyncio.gather(job, put(link), put(cache)))[0]
    # It is unknown yet whether the job is new. The cache entry is written only if it is; a link
    # that was written in vain is swept.
    submitted, _ = await asyncio.gather(submit_idempotent(request, submission, digest), put(link))
    if not submitted.replayed:
        await put(cache)
    return submitted.jobs[0]


def records_of(
    engine: Engine, diagram: Diagram, submission: Submission, settings: RenderSettings
) -> tuple[Record, Record]:
    """Return the records that are written with a job: its link and its cache entry."""
    by, now = LinkedJob(submission.tenant, submission.public_id or ""), engine.clock.now()
    return (
        links.link_record(by, diagram.shortlink or "", now, settings.retention_ms),
        links.cache_record(by, links.digest_of(diagram), now, settings.cache_ttl_ms),
    )


def submission_of(request: Request, diagram: Diagram) -> Submission:
    """Return the submission of a diagram, with a new shortlink and a public id."""
    diagram.shortlink = links.new_shortlink()
    return Submission(
        KIND,
        diagram.model_dump_json(),
        tenant=tenant_of(request),
        surface=SURFACE,
        public_id=f"job_{token_hex(4)}",
    )


async def find_cached(request: Request, diagram: Diagram) -> Job | None:
    """Return the job that recently drew the same diagram for the same tenant, or None."""
    engine: Engine = request.app.state.engine
    now, tenant = engine.clock.now(), tenant_of(request)
    found = await links.find_cache_entry(engine.store, links.digest_of(diagram), tenant, now)
    if found is None:
        return None
    try:
        job = await engine.get(found.job_id, found.tenant)
    except NotFound:
        return None
    return job if job.state is State.SUCCEEDED else None
