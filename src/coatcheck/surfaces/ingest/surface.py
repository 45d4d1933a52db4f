"""The surface itself: kinds, calls, cards."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from coatcheck.app import App
from coatcheck.http.jobs.card_view import PlannedStep
from coatcheck.http.surfaces.base import OptionalPart, Surface
from coatcheck.model.confinement import Confinement
from coatcheck.model.job import Job
from coatcheck.model.options import SurfaceOptions
from coatcheck.settings import Settings
from coatcheck.surfaces.ingest.batch import ingest_batch
from coatcheck.surfaces.ingest.constants import (
    BATCH,
    BATCH_KIND,
    FROM_URL,
    KIND,
    QUEUE,
    SOURCE_LABEL,
    SURFACE,
)
from coatcheck.surfaces.ingest.embedding.settings import EMBEDDER
from coatcheck.surfaces.ingest.embedding.weights import FETCH_COMMAND, find_weights
from coatcheck.surfaces.ingest.handlers import IngestHandlers
from coatcheck.surfaces.ingest.job import ingest_document
from coatcheck.surfaces.ingest.opened import Opened
from coatcheck.surfaces.ingest.routes import endpoints_for
from coatcheck.surfaces.ingest.service import DocumentService
from coatcheck.surfaces.ingest.settings import STEP_SECONDS, IngestSettings

# A document of thousands of pages, embedded without a graphics card.
TIMEOUT = "6h"
# Its documents have to be done first; and nothing runs while it waits for them.
BATCH_TIMEOUT = "7d"


class IngestSurface(Surface):
    """Documents over HTTP: `POST /v1/ingest`, `GET /v1/collections/{name}/search` and theirs."""

    name = SURFACE

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        given = os.environ if environment is None else environment
        self._settings = IngestSettings.read(given)
        self._opened = Opened(given)
        self._service = DocumentService(self._opened, self._settings)
        self.endpoints = endpoints_for(IngestHandlers(self._opened))

    def declare(self, app: App) -> None:
        """Declare the kind that brings a document in, and the one that waits for several."""
        app.job(
            KIND,
            timeout=TIMEOUT,
            isolation="process",
            memory=self._settings.memory,
            surface=SurfaceOptions(
                confinement=Confinement(
                    environment=(EMBEDDER, STEP_SECONDS),
                    read=_readable,
                    service=self._service.answer,
                )
            ),
            queue=QUEUE,
        )(ingest_document)
        internal = SurfaceOptions(internal=True)
        app.job(BATCH_KIND, timeout=BATCH_TIMEOUT, queue=QUEUE, surface=internal)(ingest_batch)

    def configure(self, settings: Settings) -> None:
        """Take what the operator has set."""
        self._opened.configure(settings)

    async def close(self) -> None:
        """Let go of the index."""
        await self._opened.close()

    def planned_steps(self, job: Job) -> Sequence[PlannedStep]:
        """List the steps of a document's way."""
        total = None if job.progress is None else job.progress.total
        if job.kind not in (KIND, BATCH_KIND):
            return ()
        if job.kind == BATCH_KIND:
            return [PlannedStep("gather", None if total is None else int(total))]
        batches = None if not total else -(-int(total) // BATCH)
        fetch = [PlannedStep("fetch")] if job.labels.get(SOURCE_LABEL) == FROM_URL else []
        steps = (PlannedStep(name) for name in ("compare", "extract", "chunk"))
        return [*fetch, *steps, PlannedStep("embed", batches), PlannedStep("publish")]

    def optional_parts(self) -> Iterable[OptionalPart]:
        """Report which embedder is in use, and whether its weights are installed."""
        embedding = self._opened.embedding
        if embedding.embedder == "offline":
            missing = "" if find_weights() else FETCH_COMMAND
            yield OptionalPart("documents are embedded here, by the offline model", missing)
        else:
            yield OptionalPart(
                f"documents are embedded by {embedding.model} at an endpoint of yours"
            )


def _readable() -> tuple[Path, ...]:
    """List what the confined process reads beyond the packages: the weights, if they are here."""
    found = find_weights()
    return () if found is None else (found,)
