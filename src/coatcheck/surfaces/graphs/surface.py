"""The graphs surface: code graphs over HTTP."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from starlette.responses import JSONResponse, Response

from coatcheck.app import App
from coatcheck.clock import SystemClock, to_rfc3339
from coatcheck.http.errors import ErrorResponse
from coatcheck.http.surfaces.base import OptionalPart, Surface
from coatcheck.logs import correlation_id
from coatcheck.model.confinement import Confinement
from coatcheck.model.options import SurfaceOptions
from coatcheck.surfaces.graphs.constants import KIND, PREFIX, QUEUE, SURFACE
from coatcheck.surfaces.graphs.domain_names import NamingService
from coatcheck.surfaces.graphs.job import graph
from coatcheck.surfaces.graphs.routes import endpoints_for
from coatcheck.surfaces.graphs.settings import MEMORY, NAMING_URL, GraphSettings

TIMEOUT = "30m"


class GraphSurface(Surface):
    """Code graphs over HTTP: `POST /v1/graphs/call` and its siblings."""

    name = SURFACE
    prefixes = (PREFIX,)

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.settings = GraphSettings.read(os.environ if environment is None else environment)
        self.endpoints = endpoints_for(self.settings)

    def declare(self, app: App) -> None:
        """Declare the job kind."""
        settings = self.settings
        app.job(
            KIND,
            retries=0,
            timeout=TIMEOUT,
            on_lost="fail",
            on_drain="release",  # the archive did not cause the stop
            isolation="process",
            memory=settings.memory,
            surface=SurfaceOptions(
                confinement=Confinement(
                    environment=(MEMORY,), service=NamingService(settings.naming).answer
                )
            ),
            slots=settings.concurrency,
            queue=QUEUE,
            keep_succeeded=f"{settings.completed_hours}h",
            keep_failed=f"{settings.failed_days}d",
            payload_ttl=f"{settings.archive_hours}h",
            drop_input_on_end=True,
        )(graph)

    def format_error(self, error: ErrorResponse, path: str) -> Response:  # noqa: ARG002 - the same everywhere
        """Format an error as the surface's document specifies."""
        body = {
            "status": error.status,
            "code": error.code,
            "message": error.detail,
            "timestamp": to_rfc3339(SystemClock().now()),
            "requestId": correlation_id.get(),
            "details": [{"field": field, "issue": issue} for field, issue in error.errors],
        }
        return JSONResponse(body, error.status, error.headers)

    def optional_parts(self) -> Iterable[OptionalPart]:
        """Report how domains are named."""
        naming = self.settings.naming
        if naming is None:
            yield OptionalPart(
                f"domains of a codebase are named from its paths ({NAMING_URL} is not set)"
            )
        else:
            yield OptionalPart(f"domains of a codebase are named by {naming.model} at {naming.url}")
