"""Handing in a diagram: as a job, by whichever way it is asked for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from secrets import token_hex
from typing import Any

from starlette.requests import Request

from coatcheck.engine.engine import Engine
from coatcheck.engine.submission import Submission, as_submitted, prepare
from coatcheck.engine.submitting import Submitted
from coatcheck.errors import IdTaken, NotFound
from coatcheck.http.caller import tenant_of
from coatcheck.http.idempotency import HEADER
from coatcheck.http.surface_calls import submit_for, submitted_for
from coatcheck.model.job import Job
from coatcheck.model.state import State
from coatcheck.surfaces.render import links
from coatcheck.surfaces.render.diagram import KIND, SURFACE, Diagram
from coatcheck.surfaces.render.links import Linked
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
    now, store = engine.clock.now(), engine.store
    asked = _submission(request, diagram)
    by = Linked(asked.tenant, asked.public_id or "")
    digest = links.digest_of(diagram)
    link = links.remember_link(store, diagram.shortlink or "", by, now, settings.retention_ms)
    drawn = links.remember_drawn(store, digest, by, now, settings.cache_ttl_ms)
    if HEADER in request.headers:
        return await _submit_once(request, asked, digest, link, drawn)
    # The three belong together, and go to the disk together; a link without a job leads nowhere.
    _, _, job = await asyncio.gather(link, drawn, submit_for(request, asked, digest))
    return job


async def _submit_once(
    request: Request,
    asked: Submission,
    digest: str,
    link: Coroutine[Any, Any, None],
    drawn: Coroutine[Any, Any, None],
) -> Job:
    """Submit under a key. Whether there is a new job is not known before: what was drawn lately is
    told only then, and a link that was written for nothing goes with a sweep.
    """
    with contextlib.closing(drawn):
        submitting = asyncio.gather(link, submitted_for(request, asked, digest))
        submitted: Submitted = (await submitting)[1]
        if not submitted.replayed:
            await drawn
    return submitted.jobs[0]


def _submission(request: Request, diagram: Diagram) -> Submission:
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


class WaitingRoom:
    """Lets callers wait on the line for their picture, as long as few enough wait."""

    def __init__(self, settings: RenderSettings) -> None:
        self._settings = settings
        self._coming = 0  # let in by this process, and not in the store yet

    async def submit(self, request: Request, diagram: Diagram) -> tuple[Job | None, Job | None]:
        """Return the job that has drawn the diagram lately, or else a new one that will; neither
        where too many wait already.
        """
        most = self._settings.most_waiting
        self._coming += 1
        try:
            # Both are asked at once: mostly it has not been drawn, and somebody waits.
            drawn, waiting = await asyncio.gather(
                drawn_lately(request, diagram), _waiting(request, diagram, most)
            )
            if drawn is not None or waiting + self._coming > most:
                return drawn, None
            return None, await submit(request, diagram, self._settings)
        finally:
            self._coming -= 1


async def _waiting(request: Request, diagram: Diagram, most: int) -> int:
    engine: Engine = request.app.state.engine
    asked = _submission(request, diagram)
    next_one = as_submitted(prepare(asked, engine.kinds, engine.new_id(), engine.clock.now()))
    return await engine.store.ahead_of(next_one, [KIND], most)
