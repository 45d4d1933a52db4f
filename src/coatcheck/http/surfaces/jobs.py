"""`GET /jobs/{id}`: a path that the documents of several surfaces use for their jobs.

The job's surface builds the response. A job of another surface, or a deleted one, answers 404:
these documents have no tombstones.
"""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from coatcheck.engine.engine import Engine
from coatcheck.errors import NotFound
from coatcheck.http.auth.readers import named_job
from coatcheck.http.endpoint import JSON, Endpoint, EndpointResponse, KindRule
from coatcheck.http.errors import ErrorResponse
from coatcheck.http.surfaces.base import Surface

PREFIX = "/jobs"
NOT_FOUND = "Job not found"
ERROR = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}


def format_error(error: ErrorResponse, _path: str) -> Response:
    """Serialize an error as `{"error": "..."}`."""
    status, detail = error.status, error.detail
    if status in (404, 410):
        status, detail = 404, NOT_FOUND
    return JSONResponse({"error": detail}, status, error.headers)


def show_job_endpoint(surfaces: Mapping[str, Surface]) -> Endpoint:
    """Build the endpoint that shows the jobs of these surfaces."""

    async def show_job(request: Request) -> Response:
        """Return a job in the format of its surface."""
        engine: Engine = request.app.state.engine
        job = await engine.payload_store.with_result(await named_job(request))
        surface = surfaces.get(job.surface)
        if surface is None:
            raise NotFound(NOT_FOUND)
        return await surface.show_job(request, job)

    return Endpoint(
        "GET",
        f"{PREFIX}/{{job_id}}",
        show_job,
        "showJob",
        "Show a job in the format of its surface",
        "surfaces",
        {
            200: EndpointResponse(
                "The job, as its surface's document specifies.", {JSON: {"type": "object"}}
            )
        },
        error_statuses=(404,),
        kind=KindRule.JOB,
        error_media={JSON: ERROR},
    )
