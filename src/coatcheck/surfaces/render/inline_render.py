"""Draw diagrams for synchronous callers.

The number of callers who wait is limited: if more jobs are queued than the operator allows, the
request is rejected and can be retried. A recent identical picture is reused from the cache.

Drawing takes some milliseconds. If no job is queued and a worker runs next to this server, the
diagram is drawn within the request, in a warm process (worker/processes/warm_process.py), and its
job is written as finished. A diagram that takes longer, is large, or ends neither in success nor in
an error of its source becomes a queued job, and the request waits for it.
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
    find_cached,
    records_of,
    submission_of,
    submit,
)
from coatcheck.worker.processes.warm_process import WarmProcess

# A diagram that takes longer is left to a worker, which starts over.
INLINE_TIMEOUT_S = 1.0


class CachedRender(NamedTuple):
    """An identical diagram was drawn by this job."""

    job: Job


class InlineRender(NamedTuple):
    """A diagram that was drawn within the request: its shortlink, or an error."""

    shortlink: str
    error: Failure | None


class QueuedRender(NamedTuple):
    """A queued job will draw the diagram."""

    job: Job


class InlineRenderer:
    """Draws diagrams for callers who wait, as long as few enough wait."""

    def __init__(self, settings: RenderSettings) -> None:
        self._settings = settings
        self._process_settings: Settings | None = None
        self._warm_process: WarmProcess | None = None
        self._arriving = 0  # requests in progress whose job is not in the store yet

    def configure(self, settings: Settings) -> None:
        """Set the operator's settings."""
        self._process_settings = settings

    async def close(self) -> None:
        """Stop the warm process."""
        if self._warm_process is not None:
            await self._warm_process.close()

    async def draw(
        self, request: Request, diagram: Diagram
    ) -> CachedRender | InlineRender | QueuedRender | None:
        """Draw a diagram for a caller who waits; return None if too many wait already."""
        engine: Engine = request.app.state.engine
        submission = bind_submission(request, submission_of(request, diagram))
        job = prepare(submission, engine.kinds, engine.new_id(), engine.clock.now())
        limit = self._settings.max_waiting
        self._arriving += 1
        try:
            # Both at once: most often there is no cached picture, and the queue must be checked.
            cached, waiting = await asyncio.gather(
                find_cached(request, diagram),
                engine.store.queues.count_ahead(as_submitted(job), [KIND], limit),
            )
            if cached is not None:
                return CachedRender(cached)
            if waiting + self._arriving > limit:
                return None
            process = None if waiting else self._process_for(request, diagram, submission)
            if process is not None and not await engine.store.queues.is_restricted(QUEUE):
                finished = await process.run(job, INLINE_TIMEOUT_S)
                if finished is not None and _is_final(finished):
                    with contextlib.suppress(IdTaken):  # one in four billion
                        return await self._write(engine, diagram, submission, job, finished)
            return QueuedRender(await submit(request, diagram, self._settings))
        finally:
            self._arriving -= 1

    async def _write(
        self,
        engine: Engine,
        diagram: Diagram,
        submission: Submission,
        job: JobInsert,
        finished: FinishedJob,
    ) -> InlineRender:
        records = records_of(engine, diagram, submission, self._settings)
        await engine.submit_finished(job, finished._replace(records=records), submission.admission)
        return InlineRender(diagram.shortlink or "", _error_of(finished))

    def _process_for(
        self, request: Request, diagram: Diagram, submission: Submission
    ) -> WarmProcess | None:
        """Return the process that may draw a diagram within its request, or None."""
        settings = self._process_settings
        if (
            settings is None
            or not request.app.state.has_worker
            or HEADER in request.headers
            or diagram.output is not Output.SVG
            or diagram.engine is not None
            or self._settings.max_concurrent == 1
            # A tenant with quotas may be over them.
            or (submission.admission is not None and submission.admission.quotas is not None)
        ):
            return None
        if self._warm_process is None:
            engine: Engine = request.app.state.engine
            self._warm_process = WarmProcess([engine.kinds[KIND]], settings, engine.clock)
        return self._warm_process


def _error_of(finished: FinishedJob) -> Failure | None:
    return finished.outcome.error if isinstance(finished.outcome, GaveUp) else None


def _is_final(finished: FinishedJob) -> bool:
    """Report whether a worker would reach the same outcome."""
    error = _error_of(finished)
    return error is None or error.code == BAD_SOURCE
