"""The files that jobs leave behind: listed, and given out as they are, or in part.

A file is whatever a handler made of whatever it was given, so a browser must not run it in our
name. It is sandboxed and without a right to load anything, its type is not to be guessed at, and it
is saved rather than shown unless it is a plain image.
"""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from coatcheck.engine.engine import Engine
from coatcheck.errors import NotFound
from coatcheck.http.auth.readers import named_job
from coatcheck.http.endpoint import JSON
from coatcheck.http.errors import problem_response
from coatcheck.http.jobs.views import artifact_view, dumps
from coatcheck.model.artifact import Artifact
from coatcheck.model.job import Job

# Images that hold no programs: an SVG does.
INLINE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"})
SANDBOX_HEADERS = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}
_RANGE = re.compile(r"bytes=(?:([0-9]{1,18})-([0-9]{1,18})?|-([0-9]{1,18}))")


async def list_artifacts(request: Request) -> Response:
    """Answer with the files that a job has left behind so far, by name."""
    job = await named_job(request)
    listed = [artifact_view(job, artifact) for artifact in job.artifacts]
    return Response(dumps({"artifacts": listed}), media_type=JSON)


async def get_artifact(request: Request) -> Response:
    """Answer with a file as it is, or with the part of it that a Range header names."""
    engine: Engine = request.app.state.engine
    job = await named_job(request)
    artifact = _find(job, request.path_params["file"])
    tag = f'"{artifact.sha256}"'
    headers = {**SANDBOX_HEADERS, "ETag": tag, "Accept-Ranges": "bytes"}
    if _names(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=304, headers=headers)
    headers["Content-Type"] = artifact.content_type
    headers["Content-Disposition"] = _disposition(artifact)
    status, start, stop = 200, 0, artifact.size
    wanted = _range(request, tag)
    if wanted is not None:
        start, stop = _within(wanted, artifact.size)
        if start >= stop:
            size = {"Content-Range": f"bytes */{artifact.size}"}
            message = f"the file has {artifact.size:,} bytes, and none of them in that range"
            return problem_response(416, "range-not-satisfiable", message, headers=size)
        status = 206
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{artifact.size}"
    headers["Content-Length"] = str(stop - start)
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers)
    pieces = await engine.payload_store.stream(artifact, start, stop)
    return StreamingResponse(pieces, status, headers)


def _find(job: Job, name: str) -> Artifact:
    for artifact in job.artifacts:
        if artifact.name == name:
            return artifact
    raise NotFound(f"job {job.id} has no artifact of that name")


def _disposition(artifact: Artifact) -> str:
    how = "inline" if artifact.content_type in INLINE_TYPES else "attachment"
    return f'{how}; filename="{artifact.name}"'  # a name has nothing that needs escaping


def _names(given: str, tag: str) -> bool:
    return any(each.strip().removeprefix("W/") in (tag, "*") for each in given.split(","))


def _range(request: Request, tag: str) -> re.Match[str] | None:
    """Return the one range asked for; several at once, and nonsense, are as good as none."""
    if request.headers.get("if-range", tag) != tag:
        return None  # it was another file: all of this one then
    return _RANGE.fullmatch(request.headers.get("range", "").strip())


def _within(wanted: re.Match[str], size: int) -> tuple[int, int]:
    first, last, end = wanted.groups()
    if end is not None:
        return max(0, size - int(end)), size
    return int(first), size if last is None else min(size, int(last) + 1)
