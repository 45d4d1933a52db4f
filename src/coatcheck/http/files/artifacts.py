"""Artifacts: list the files that a job created, and download them whole or in part.

The content of a file is untrusted, so a browser must not run it with this server's origin. The
response is sandboxed and may load nothing, its type is not sniffed, and the file is downloaded
unless it is a plain image.
"""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from coatcheck.documents.jobs import ArtifactPage
from coatcheck.engine.engine import Engine
from coatcheck.errors import NotFound
from coatcheck.http.auth.readers import named_job
from coatcheck.http.endpoint import (
    ANY,
    JSON,
    Endpoint,
    EndpointResponse,
    KindRule,
    Parameter,
    as_json,
    ref,
)
from coatcheck.http.errors import problem_response
from coatcheck.http.jobs.views import artifact_view, dumps
from coatcheck.model.artifact import Artifact
from coatcheck.model.job import Job

# Images without scripts, unlike SVG.
INLINE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"})
SANDBOX_HEADERS = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}
_RANGE = re.compile(r"bytes=(?:([0-9]{1,18})-([0-9]{1,18})?|-([0-9]{1,18}))")


async def list_artifacts(request: Request) -> Response:
    """Return the artifacts of a job, by name."""
    job = await named_job(request)
    page: ArtifactPage = {"artifacts": [artifact_view(job, each) for each in job.artifacts]}
    return Response(dumps(page), media_type=JSON)


async def get_artifact(request: Request) -> Response:
    """Return an artifact, or the part of it that a Range header names."""
    engine: Engine = request.app.state.engine
    job = await named_job(request)
    artifact = _find(job, request.path_params["file"])
    tag = f'"{artifact.sha256}"'
    headers = {**SANDBOX_HEADERS, "ETag": tag, "Accept-Ranges": "bytes"}
    if _matches(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=304, headers=headers)
    headers["Content-Type"] = artifact.content_type
    headers["Content-Disposition"] = _disposition(artifact)
    status, start, stop = 200, 0, artifact.size
    wanted = _range(request, tag)
    if wanted is not None:
        start, stop = _within(wanted, artifact.size)
        if start >= stop:
            size = {"Content-Range": f"bytes */{artifact.size}"}
            message = f"the range is outside the file, which has {artifact.size:,} bytes"
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
    disposition = "inline" if artifact.content_type in INLINE_TYPES else "attachment"
    return f'{disposition}; filename="{artifact.name}"'  # a name needs no escaping


def _matches(given: str, tag: str) -> bool:
    return any(each.strip().removeprefix("W/") in (tag, "*") for each in given.split(","))


def _range(request: Request, tag: str) -> re.Match[str] | None:
    """Return the requested range; ignore multiple ranges and malformed ones."""
    if request.headers.get("if-range", tag) != tag:
        return None  # the file has changed: return all of it
    return _RANGE.fullmatch(request.headers.get("range", "").strip())


def _within(wanted: re.Match[str], size: int) -> tuple[int, int]:
    first, last, end = wanted.groups()
    if end is not None:
        return max(0, size - int(end)), size
    return int(first), size if last is None else min(size, int(last) + 1)


_TEXT = {"type": "string"}
_BYTES = {ANY: {"type": "string", "format": "binary"}}
_SAFE = ("ETag", "Accept-Ranges", "Content-Disposition")

ARTIFACTS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        "/v1/jobs/{job_id}/artifacts",
        list_artifacts,
        "listArtifacts",
        "List the artifacts of a job",
        "jobs",
        {200: EndpointResponse("The artifacts, by name.", as_json(ref("ArtifactPage")))},
        error_statuses=(404, 410),
        kind=KindRule.JOB,
        for_lease_holder=True,
    ),
    Endpoint(
        "GET",
        "/v1/jobs/{job_id}/artifacts/{file}",
        get_artifact,
        "getArtifact",
        "Download an artifact of a job",
        "jobs",
        {
            200: EndpointResponse("The file.", _BYTES, _SAFE),
            206: EndpointResponse("The requested part.", _BYTES, (*_SAFE, "Content-Range")),
            304: EndpointResponse("Unchanged since `If-None-Match`.", {}, ("ETag",)),
        },
        error_statuses=(404, 410, 416),
        parameters=(
            Parameter(
                "Range", "One range of bytes, such as bytes=0-999.", _TEXT, location="header"
            ),
            Parameter("If-Range", "Only if the file has this ETag.", _TEXT, location="header"),
            Parameter(
                "If-None-Match", "The ETag of an earlier response.", _TEXT, location="header"
            ),
        ),
        kind=KindRule.JOB,
        for_lease_holder=True,
    ),
)
