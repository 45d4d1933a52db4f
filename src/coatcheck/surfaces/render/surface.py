"""The render surface: its kind, endpoints and responses."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from coatcheck.app import App
from coatcheck.engine.engine import Engine
from coatcheck.http.errors import ErrorResponse
from coatcheck.http.surfaces.base import OptionalPart, Surface
from coatcheck.model.confinement import Confinement
from coatcheck.model.job import Job
from coatcheck.model.options import SurfaceOptions
from coatcheck.settings import Settings
from coatcheck.surfaces.render.diagram import KIND, QUEUE, SURFACE, fork_input, render
from coatcheck.surfaces.render.drawing import Format, engine_names, engines_in_force
from coatcheck.surfaces.render.drawing.chromium import ChromiumEngine
from coatcheck.surfaces.render.drawing.chromium.engine import PROGRAM
from coatcheck.surfaces.render.handlers import RenderHandlers
from coatcheck.surfaces.render.links import LinkSweep
from coatcheck.surfaces.render.routes import endpoints_for
from coatcheck.surfaces.render.settings import ENGINE, RenderSettings
from coatcheck.surfaces.render.views import job_view


class RenderSurface(Surface):
    """Diagrams over HTTP: `POST /render`, `GET /jobs/{id}`, `GET /d/{shortlink}`."""

    name = SURFACE
    prefixes = ("/render", "/d", "/health")
    shows_jobs = True

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.settings = RenderSettings.read(os.environ if environment is None else environment)
        self._handlers = RenderHandlers(self.settings)
        self.endpoints = endpoints_for(self._handlers)
        self._links = LinkSweep()

    def declare(self, app: App) -> None:
        """Declare the kind that draws."""
        retention_s = self.settings.retention_ms / 1000
        app.job(
            KIND,
            retries=1,  # only for a lost worker: a source that explodes would explode again
            on_overrun="fail",
            timeout=self.settings.seconds,
            isolation="process",
            memory=self.settings.memory,
            surface=SurfaceOptions(
                confinement=Confinement(
                    environment=(ENGINE, PROGRAM),
                    starts_programs=True,
                    sees_processes=self.settings.engine == ChromiumEngine.name,
                ),
                fork_input=fork_input,
            ),
            queue=QUEUE,
            keep_succeeded=retention_s,
            keep_failed=retention_s,
            concurrency=self.settings.max_concurrent,
        )(render)

    def configure(self, settings: Settings) -> None:
        """Set the operator's settings."""
        self._handlers.inline.configure(settings)

    async def close(self) -> None:
        """Stop the process that draws within requests."""
        await self._handlers.inline.close()

    async def sweep(self, engine: Engine) -> None:
        """Delete links whose job is gone."""
        await self._links.sweep(engine)

    def format_error(self, refusal: ErrorResponse, path: str) -> Response:  # noqa: ARG002
        """Serialize an error as one sentence; 410 becomes 404."""
        status = 404 if refusal.status == 410 else refusal.status
        return JSONResponse({"error": refusal.detail}, status, refusal.headers)

    def optional_parts(self) -> Iterable[OptionalPart]:
        """List the engines: the active one for each format, and the alternatives."""
        for found in engines_in_force():
            engine = f"{found.engine} {found.version or ''}".strip()
            note = f" ({found.note})" if found.note else ""
            chosen = self.settings.engine if found.format is Format.MERMAID else ""
            if found.engine != (chosen or engine_names(found.format)[0]):
                needs = f", which needs {found.missing}" if found.missing else ""
                how = f"{ENGINE}={found.engine}"
                yield OptionalPart(
                    f"{found.format} could be drawn by {engine} ({how}){needs}{note}"
                )
            elif found.ready:
                yield OptionalPart(f"{found.format} is drawn by {engine}{note}")
            else:
                yield OptionalPart(f"{found.format} cannot be drawn by {engine}", found.missing)

    async def show_job(self, request: Request, job: Job) -> Response:  # noqa: ARG002
        """Return a job as JSON."""
        return JSONResponse(job_view(job, self.settings.base_url))
