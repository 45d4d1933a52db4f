"""The surface itself: kinds, calls, words."""

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
        self._calls = RenderHandlers(self.settings)
        self.endpoints = endpoints_for(self._calls)
        self._links = LinkSweep()

    def declare(self, app: App) -> None:
        """Declare the kind that draws."""
        kept = self.settings.retention_ms / 1000
        app.job(
            KIND,
            retries=1,  # for a worker that was lost: a source that explodes would do so again
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
            keep_succeeded=kept,
            keep_failed=kept,
            concurrency=self.settings.most_at_once,
        )(render)

    def configure(self, settings: Settings) -> None:
        """Take what the operator has set."""
        self._calls.room.configure(settings)

    async def close(self) -> None:
        """End the process that draws for whoever waits on the line."""
        await self._calls.room.close()

    async def sweep(self, engine: Engine) -> None:
        """Remove links that lead nowhere any more."""
        await self._links.sweep(engine)

    def format_error(self, refusal: ErrorResponse, path: str) -> Response:  # noqa: ARG002 - the same everywhere
        """Write a refusal: one sentence. What is gone was never there."""
        status = 404 if refusal.status == 410 else refusal.status
        return JSONResponse({"error": refusal.detail}, status, refusal.headers)

    def optional_parts(self) -> Iterable[OptionalPart]:
        """List the engines: the one in force for each format, and what could be chosen instead."""
        for found in engines_in_force():
            said = f"{found.engine} {found.version or ''}".strip()
            note = f" ({found.note})" if found.note else ""
            chosen = self.settings.engine if found.format is Format.MERMAID else ""
            if found.engine != (chosen or engine_names(found.format)[0]):
                lacks = f", which needs {found.missing}" if found.missing else ""
                how = f"{ENGINE}={found.engine}"
                yield OptionalPart(f"{found.format} could be drawn by {said} ({how}){lacks}{note}")
            elif found.ready:
                yield OptionalPart(f"{found.format} is drawn by {said}{note}")
            else:
                yield OptionalPart(f"{found.format} cannot be drawn by {said}", found.missing)

    async def show_job(self, request: Request, job: Job) -> Response:  # noqa: ARG002
        """Show a job."""
        return JSONResponse(job_view(job, self.settings.base_url))
