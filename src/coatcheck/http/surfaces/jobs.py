"""`GET /jobs/{id}`: an address that the documents of several surfaces give to jobs of theirs.

The job says whose it is, and that surface shows it. To everybody else it is not there: nor is a job
that has been deleted, for these documents know of no tombstones.
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


def refuse(refusal: ErrorResponse, _path: str) -> Response:
    """Write a refusal as both documents do: one sentence."""
    status, said = refusal.status, refusal.detail
    if status in (404, 410):
        status, said = 404, NOT_FOUND
    return JSONResponse({"error": said}, status, refusal.headers)


def endpoint_for(surfaces: Mapping[str, Surface]) -> Endpoint:
    """Make the call that shows the jobs of these surfaces."""

    async def show_job(request: Request) -> Response:
        """Show a job in the words of the surface it came in by."""
        engine: Engine = request.app.state.engine
        job = await engine.payload_store.with_result(await named_job(request))
        surface = surfaces.get(job.surface)
        if surface is None:
            raise NotFound(NOT_FOUND)
        return await surface.show(request, job)

    return Endpoint(
        "GET",
        f"{PREFIX}/{{job_id}}",
        show_job,
        "showJob",
        "Show a job as its surface does",
        "surfaces",
        {
            200: EndpointResponse(
                "The job, as its surface's document says.", {JSON: {"type": "object"}}
            )
        },
        refusals=(404,),
        kind=KindRule.JOB,
        refused_as={JSON: ERROR},
    )
