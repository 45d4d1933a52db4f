"""Waiting on the line for a picture.

Few enough are let wait: with more in the queue than the operator has set, whoever comes is told to
come again. What was drawn lately is not drawn again.

A picture takes some milliseconds. Where nobody waits and a worker runs beside this server, it is
drawn within the request, in a process that is kept at hand for that (at_hand.py), and its job is
written with it. What takes longer, what is large, and what does not come to a good or a bad end of
its own, becomes a job that is queued, and waited for.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from starlette.requests import Request

from coatcheck.engine.engine import Engine
from coatcheck.engine.submission import prepare
from coatcheck.errors import IdTaken
from coatcheck.http.idempotency import HEADER
from coatcheck.http.surface_calls import submission_for
from coatcheck.model.job import Failure, Job
from coatcheck.model.outcome import GaveUp
from coatcheck.settings import Settings
from coatcheck.surfaces.render.diagram import BAD_SOURCE, KIND, QUEUE, Diagram
from coatcheck.surfaces.render.drawing import Output
from coatcheck.surfaces.render.settings import RenderSettings
from coatcheck.surfaces.render.submitting import (
    ahead_of,
    drawn_lately,
    remembered,
    submission_of,
    submit,
)
from coatcheck.worker.processes.at_hand import AtHand

# What is not drawn by then is left to a worker, which begins anew.
AT_ONCE_S = 1.0


class DrawnLately(NamedTuple):
    """The same was drawn by this job."""

    job: Job


class DrawnAtOnce(NamedTuple):
    """What became of a diagram within its request: an error, or a picture at its shortlink."""

    shortlink: str
    error: Failure | None


class Queued(NamedTuple):
    """It will be drawn by this job."""

    job: Job


class WaitingRoom:
    """Lets callers wait on the line for their picture, as long as few enough wait."""

    def __init__(self, settings: RenderSettings) -> None:
        self._settings = settings
        self._process_settings: Settings | None = None
        self._at_hand: AtHand | None = None
        self._coming = 0  # let in by this process, and not in the store yet

    def configure(self, settings: Settings) -> None:
        """Take what the operator has set."""
        self._process_settings = settings

    async def close(self) -> None:
        """End the process at hand."""
        if self._at_hand is not None:
            await self._at_hand.close()

    async def enter(
        self, request: Request, diagram: Diagram
    ) -> DrawnLately | DrawnAtOnce | Queued | None:
        """Have a diagram drawn for who waits for it; None where too many wait already."""
        most = self._settings.most_waiting
        self._coming += 1
        try:
            # Both are asked at once: mostly it has not been drawn, and somebody waits.
            drawn, waiting = await asyncio.gather(
                drawn_lately(request, diagram), ahead_of(request, diagram, most)
            )
            if drawn is not None:
                return DrawnLately(drawn)
            if waiting + self._coming > most:
                return None
            if not waiting and (at_once := await self._draw(request, diagram)) is not None:
                return at_once
            return Queued(await submit(request, diagram, self._settings))
        finally:
            self._coming -= 1

    async def _draw(self, request: Request, diagram: Diagram) -> DrawnAtOnce | None:
        """Draw a diagram within its request, where that may be done."""
        engine: Engine = request.app.state.engine
        at_hand = self._process_for(request, diagram)
        if at_hand is None or await engine.store.is_held(QUEUE):
            return None
        asked = submission_for(request, submission_of(request, diagram))
        if asked.admission is not None and asked.admission.quotas is not None:
            return None  # nothing is drawn for who may be over them
        job = prepare(asked, engine.kinds, engine.new_id(), engine.clock.now())
        ended = await at_hand.run(job, AT_ONCE_S)
        if ended is None:
            return None
        error = ended.outcome.error if isinstance(ended.outcome, GaveUp) else None
        if error is not None and error.code != BAD_SOURCE:
            return None
        link, drawn = remembered(engine, diagram, asked, self._settings)
        written = engine.submit_ended(job, ended, asked.admission)
        try:
            # They go to the disk together; a link without a job leads nowhere.
            await asyncio.gather(link, drawn, written)
        except IdTaken:
            return None  # one in four billion
        return DrawnAtOnce(diagram.shortlink or "", error)

    def _process_for(self, request: Request, diagram: Diagram) -> AtHand | None:
        settings = self._process_settings
        if (
            settings is None
            or not request.app.state.beside_worker
            or HEADER in request.headers
            or diagram.output is not Output.SVG
            or diagram.engine is not None
            or self._settings.most_at_once == 1
        ):
            return None
        if self._at_hand is None:
            engine: Engine = request.app.state.engine
            self._at_hand = AtHand([engine.kinds[KIND]], settings, engine.clock)
        return self._at_hand
