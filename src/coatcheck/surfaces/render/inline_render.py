"""Waiting on the line for a picture.

Few enough are let wait: with more in the queue than the operator has set, whoever comes is told to
come again. What was drawn lately is not drawn again.

A picture takes some milliseconds. Where nobody waits and a worker runs beside this server, it is
drawn within the request, in a process that is kept at hand for that
(worker/processes/warm_process.py), and its job is written with it. What takes longer, what is
large, and what does not come to a good or a bad end of its own, becomes a job that is queued, and
waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import NamedTuple

from starlette.requests import Request

from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission, as_submitted, prepare
from coatcheck.errors import IdTaken
from coatcheck.http.request.idempotency import HEADER
from coatcheck.http.surfaces.submit import bind_submission
from coatcheck.model.job import Failure, Job, JobInsert
from coatcheck.model.outcome import GaveUp
from coatcheck.settings import Settings
from coatcheck.store.base import FinishedJob
from coatcheck.surfaces.render.diagram import BAD_SOURCE, KIND, QUEUE, Diagram
from coatcheck.surfaces.render.drawing import Output
from coatcheck.surfaces.render.settings import RenderSettings
from coatcheck.surfaces.render.submit import (
    drawn_lately,
    records_of,
    submission_of,
    submit,
)
from coatcheck.worker.processes.warm_process import WarmProcess

# What is not drawn by then is left to a worker, which begins anew.
AT_ONCE_S = 1.0


class CachedRender(NamedTuple):
    """The same was drawn by this job."""

    job: Job


class InlineRender(NamedTuple):
    """What became of a diagram within its request: an error, or a picture at its shortlink."""

    shortlink: str
    error: Failure | None


class QueuedRender(NamedTuple):
    """It will be drawn by this job."""

    job: Job


class InlineRenderer:
    """Lets callers wait on the line for their picture, as long as few enough wait."""

    def __init__(self, settings: RenderSettings) -> None:
        self._settings = settings
        self._process_settings: Settings | None = None
        self._at_hand: WarmProcess | None = None
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
    ) -> CachedRender | InlineRender | QueuedRender | None:
        """Have a diagram drawn for who waits for it; None where too many wait already."""
        engine: Engine = request.app.state.engine
        asked = bind_submission(request, submission_of(request, diagram))
        job = prepare(asked, engine.kinds, engine.new_id(), engine.clock.now())
        most = self._settings.most_waiting
        self._coming += 1
        try:
            # Both are asked at once: mostly it has not been drawn, and somebody waits.
            drawn, waiting = await asyncio.gather(
                drawn_lately(request, diagram),
                engine.store.queues.count_ahead(as_submitted(job), [KIND], most),
            )
            if drawn is not None:
                return CachedRender(drawn)
            if waiting + self._coming > most:
                return None
            at_hand = None if waiting else self._process_for(request, diagram, asked)
            if at_hand is not None and not await engine.store.queues.is_restricted(QUEUE):
                ended = await at_hand.run(job, AT_ONCE_S)
                if ended is not None and _is_final(ended):
                    with contextlib.suppress(IdTaken):  # one in four billion
                        return await self._write(engine, diagram, asked, job, ended)
            return QueuedRender(await submit(request, diagram, self._settings))
        finally:
            self._coming -= 1

    async def _write(
        self,
        engine: Engine,
        diagram: Diagram,
        asked: Submission,
        job: JobInsert,
        ended: FinishedJob,
    ) -> InlineRender:
        records = records_of(engine, diagram, asked, self._settings)
        await engine.submit_finished(job, ended._replace(records=records), asked.admission)
        return InlineRender(diagram.shortlink or "", _error_of(ended))

    def _process_for(
        self, request: Request, diagram: Diagram, asked: Submission
    ) -> WarmProcess | None:
        """Return the process that may draw a diagram within its request, if one may."""
        settings = self._process_settings
        if (
            settings is None
            or not request.app.state.has_worker
            or HEADER in request.headers
            or diagram.output is not Output.SVG
            or diagram.engine is not None
            or self._settings.most_at_once == 1
            # Nothing is drawn for who may be over them.
            or (asked.admission is not None and asked.admission.quotas is not None)
        ):
            return None
        if self._at_hand is None:
            engine: Engine = request.app.state.engine
            self._at_hand = WarmProcess([engine.kinds[KIND]], settings, engine.clock)
        return self._at_hand


def _error_of(ended: FinishedJob) -> Failure | None:
    return ended.outcome.error if isinstance(ended.outcome, GaveUp) else None


def _is_final(ended: FinishedJob) -> bool:
    """Tell whether a worker would come to the same end."""
    error = _error_of(ended)
    return error is None or error.code == BAD_SOURCE
