"""Handing in a diagram: as a job, by whichever way it is asked for."""

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
    """Make a job of a diagram; return the job of an earlier request, where this one repeats it."""
    while True:
        try:
            return await _submit(request, diagram, settings)
        except IdTaken:
            continue  # one in four billion: another id then


async def _submit(request: Request, diagram: Diagram, settings: RenderSettings) -> Job:
    engine: Engine = request.app.state.engine
    asked = submission_of(request, diagram)
    digest = links.digest_of(diagram)
    link, drawn = records_of(engine, diagram, asked, settings)
    put = engine.store.records.put_record
    if HEADER not in request.headers:
        # They belong together, and go to the disk together; a link without a job leads nowhere.
        job = submit_job(request, asked, digest)
        return (await asyncio.gather(job, put(link), put(drawn)))[0]
    # Whether there is a new job is not known before: what was drawn lately is told only then, and a
    # link that was written for nothing goes with a sweep.
    submitted, _ = await asyncio.gather(submit_idempotent(request, asked, digest), put(link))
    if not submitted.replayed:
        await put(drawn)
    return submitted.jobs[0]


def records_of(
    engine: Engine, diagram: Diagram, asked: Submission, settings: RenderSettings
) -> tuple[Record, Record]:
    """Return what is written beside a job: where its link leads, and what it draws."""
    by, now = LinkedJob(asked.tenant, asked.public_id or ""), engine.clock.now()
    return (
        links.link_to(by, diagram.shortlink or "", now, settings.retention_ms),
        links.drawn_by(by, links.digest_of(diagram), now, settings.cache_ttl_ms),
    )


def submission_of(request: Request, diagram: Diagram) -> Submission:
    """Return a diagram as a job to be, with a shortlink and an id that the surface shows."""
    diagram.shortlink = links.new_shortlink()
    return Submission(
        KIND,
        diagram.model_dump_json(),
        tenant=tenant_of(request),
        surface=SURFACE,
        public_id=f"job_{token_hex(4)}",
    )


async def drawn_lately(request: Request, diagram: Diagram) -> Job | None:
    """Return the job that has drawn the same diagram for the same tenant, not too long ago."""
    engine: Engine = request.app.state.engine
    now, tenant = engine.clock.now(), tenant_of(request)
    found = await links.find_drawn(engine.store, links.digest_of(diagram), tenant, now)
    if found is None:
        return None
    try:
        job = await engine.get(found.job_id, found.tenant)
    except NotFound:
        return None
    return job if job.state is State.SUCCEEDED else None
