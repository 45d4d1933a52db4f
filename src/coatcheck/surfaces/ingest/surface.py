"""The ingest surface: its kinds, endpoints and cards."""

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
from coatcheck.surfaces.ingest.resources import IngestResources
from coatcheck.surfaces.ingest.routes import endpoints_for
from coatcheck.surfaces.ingest.service import DocumentService
from coatcheck.surfaces.ingest.settings import STEP_SECONDS, IngestSettings

# Enough for thousands of pages embedded without a GPU.
TIMEOUT = "6h"
# A batch waits for its documents, and uses no slot while it waits.
BATCH_TIMEOUT = "7d"


class IngestSurface(Surface):
    """Document ingest and search: `POST /v1/ingest`, `GET /v1/collections/{name}/search`."""

    name = SURFACE

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        given = os.environ if environment is None else environment
        self._settings = IngestSettings.read(given)
        self._resources = IngestResources(given)
        self._service = DocumentService(self._resources, self._settings)
        self.endpoints = endpoints_for(IngestHandlers(self._resources))

    def declare(self, app: App) -> None:
        """Declare the kind that ingests a document and the one that waits for several."""
        app.job(
            KIND,
            timeout=TIMEOUT,
            isolation="process",
            memory=self._settings.memory,
            surface=SurfaceOptions(
                confinement=Confinement(
                    environment=(EMBEDDER, STEP_SECONDS),
                    read=_readable,
                    service=self._service.handle,
                )
            ),
            queue=QUEUE,
        )(ingest_document)
        internal = SurfaceOptions(internal=True)
        app.job(BATCH_KIND, timeout=BATCH_TIMEOUT, queue=QUEUE, surface=internal)(ingest_batch)

    def configure(self, settings: Settings) -> None:
        """Set the operator's settings."""
        self._resources.configure(settings)

    async def close(self) -> None:
        """Close the index and the embedder."""
        await self._resources.close()

    def planned_steps(self, job: Job) -> Sequence[PlannedStep]:
        """List the planned steps of a job."""
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
        embedding = self._resources.embedding
        if embedding.embedder == "offline":
            missing = "" if find_weights() else FETCH_COMMAND
            yield OptionalPart("documents are embedded locally, by the offline model", missing)
        else:
            yield OptionalPart(f"documents are embedded by {embedding.model} at INGEST_EMBED_URL")


def _readable() -> tuple[Path, ...]:
    """List files a sandboxed process may read besides the packages: the weights, if installed."""
    found = find_weights()
    return () if found is None else (found,)
