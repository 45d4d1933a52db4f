"""Handlers of the surface: submit a diagram, serve a picture."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from coatcheck.engine.engine import Engine
from coatcheck.errors import NotFound
from coatcheck.http.request.body import read_json
from coatcheck.http.surfaces.submit import is_active
from coatcheck.model.job import Failure, Job
from coatcheck.model.state import State
from coatcheck.surfaces.render import links
from coatcheck.surfaces.render.diagram import BAD_SOURCE, Diagram
from coatcheck.surfaces.render.drawing import LONGEST_SOURCE, Format, Output
from coatcheck.surfaces.render.inline_render import (
    CachedRender,
    InlineRender,
    InlineRenderer,
    QueuedRender,
)
from coatcheck.surfaces.render.settings import RenderSettings
from coatcheck.surfaces.render.submit import submit
from coatcheck.surfaces.render.views import error_of, link_view, shortlink_of, submitted_view

# A synchronous caller waits at most this long; the job continues.
SYNC_WAIT_S = 60.0
RETRY_AFTER_S = 5
MODES = ("async", "sync")
NO_PICTURE = "there is no picture here"
# The source may be anybody's, so a browser must only display the picture.
_CSP_ALLOWED = "style-src 'unsafe-inline'; img-src data:; font-src data:"
SANDBOX_HEADERS = {
    "Content-Security-Policy": f"sandbox; default-src 'none'; {_CSP_ALLOWED}",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "public, max-age=300",
}
_FIELDS = {"source": "source", "format": "format", "outputType": "output"}


class RenderHandlers:
    """The handlers of a server with these settings."""

    def __init__(self, settings: RenderSettings) -> None:
        self._settings = settings
        self.inline = InlineRenderer(settings)

    async def render(self, request: Request) -> Response:
        """Draw a diagram: return 202 and an id or, with `?mode=sync`, the picture's link."""
        mode = request.query_params.get("mode", "async")
        if mode not in MODES:
            raise HTTPException(400, f"mode must be one of {', '.join(MODES)}")
        diagram = read_diagram(await read_json(request))
        if diagram.format is Format.MERMAID:
            diagram.engine = self._settings.engine or None
        if mode == "sync":
            return await self._render_sync(request, diagram)
        job = await submit(request, diagram, self._settings)
        return JSONResponse(submitted_view(job.public_id, self._settings.base_url), 202)

    async def _render_sync(self, request: Request, diagram: Diagram) -> Response:
        base_url = self._settings.base_url
        match await self.inline.draw(request, diagram):
            case CachedRender(job):
                return JSONResponse({**link_view(shortlink_of(job), base_url), "cached": True})
            case InlineRender(shortlink, None):
                return JSONResponse(link_view(shortlink, base_url))
            case InlineRender(_, Failure(message=message)):
                return JSONResponse({"error": message}, 400)
            case QueuedRender(job):
                engine: Engine = request.app.state.engine
                return _to_response(await engine.wait_for_job(job, SYNC_WAIT_S), base_url)
        waiting = self._settings.max_waiting
        detail = f"{waiting} diagrams are waiting already: retry later, or omit mode=sync"
        raise HTTPException(429, detail, headers={"Retry-After": str(RETRY_AFTER_S)})

    async def picture(self, request: Request) -> Response:
        """Serve a picture to anybody who has its link."""
        engine: Engine = request.app.state.engine
        shortlink = request.path_params["shortlink"]
        found = await links.find_link(engine.store, shortlink, engine.clock.now())
        if found is None or not await is_active(engine.store, found.tenant):
            raise NotFound(NO_PICTURE)
        job = await engine.get_without_result(found.job_id, found.tenant)
        if job.state is not State.SUCCEEDED or not job.artifacts:
            raise NotFound(NO_PICTURE)
        picture = job.artifacts[0]
        headers = {**SANDBOX_HEADERS, "ETag": f'"{picture.sha256}"'}
        if headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        headers["Content-Type"] = picture.content_type
        headers["Content-Length"] = str(picture.size)
        if request.method == "HEAD":
            return Response(headers=headers)
        pieces = await engine.payload_store.stream(picture, 0, picture.size)
        return StreamingResponse(pieces, 200, headers)

    async def health(self, _request: Request) -> Response:
        """Report that this process is alive."""
        return JSONResponse({"status": "ok"})


def read_diagram(body: Any) -> Diagram:
    """Parse a diagram; raise a 400 that names the problem."""
    if not isinstance(body, dict):
        raise HTTPException(400, "send a JSON object with source, format and outputType")
    unknown = sorted(body.keys() - _FIELDS.keys())
    if unknown:
        raise HTTPException(400, f"unknown field {unknown[0]!r}; known are {', '.join(_FIELDS)}")
    given = {_FIELDS[name]: value for name, value in body.items()}
    try:
        return Diagram.model_validate(given)
    except ValidationError as error:
        raise HTTPException(400, _error_text(error)) from None


def _error_text(error: ValidationError) -> str:
    [first, *_] = error.errors(include_url=False, include_input=False)
    field = first["loc"][0] if first["loc"] else ""
    match field:
        case "format":
            return f"format must be one of {', '.join(Format)}"
        case "output":
            return f"outputType must be one of {', '.join(Output)}"
    return f"source must be a text of 1 to {LONGEST_SOURCE:,} characters"


def _to_response(job: Job, base_url: str) -> Response:
    if not job.state.is_terminal:
        return JSONResponse(submitted_view(job.public_id, base_url), 202)
    if job.state is State.SUCCEEDED:
        return JSONResponse(link_view(shortlink_of(job), base_url))
    is_bad_source = job.error is not None and job.error.code == BAD_SOURCE
    return JSONResponse({"error": error_of(job)}, 400 if is_bad_source else 500)
