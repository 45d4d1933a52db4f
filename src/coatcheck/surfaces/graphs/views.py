"""The JSON representation of a graph job, as the surface's document specifies it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import JSONResponse, Response, StreamingResponse

from coatcheck.engine.engine import Engine
from coatcheck.errors import BlobGone
from coatcheck.http.endpoint import JSON
from coatcheck.model.artifact import Artifact
from coatcheck.model.job import Job
from coatcheck.model.state import State
from coatcheck.surfaces.graphs.constants import ARTIFACT

RETRY_AFTER_S = 10
CANCELLED = "cancelled"


def status_of(job: Job) -> str:
    """Return a job's state as the document names it. Once started, a job stays `processing`, even
    if it is queued again.
    """
    match job.state:
        case State.SUCCEEDED:
            return "completed"
        case State.FAILED | State.CANCELLED:
            return "failed"
        case State.QUEUED if job.started_at is None:
            return "pending"
    return "processing"


async def answer_job(engine: Engine, job: Job, headers: dict[str, str]) -> Response:
    """Respond with a job: 202 until it has finished, then 200 with the graph or the error."""
    status = status_of(job)
    view: dict[str, Any] = {"status": status, "jobId": job.public_id, "retryAfter": RETRY_AFTER_S}
    match status:
        case "completed":
            return await _with_result(engine, job, {**view, "retryAfter": 0}, headers)
        case "failed":
            return JSONResponse({**view, "retryAfter": 0, "error": error_of(job)}, 200, headers)
    return JSONResponse(view, 202, {**headers, "Retry-After": str(RETRY_AFTER_S)})


def error_of(job: Job) -> str:
    """Return the reason why a job failed, in a sentence that begins with its code."""
    if job.state is State.CANCELLED:
        return CANCELLED
    if job.error is None:
        return "no error was kept"
    return f"{job.error.code}: {job.error.message}"


async def _with_result(
    engine: Engine, job: Job, view: dict[str, Any], headers: dict[str, str]
) -> Response:
    """Write the response around the graph, which is streamed from the store to the caller."""
    kept = _graph_of(job)
    before = json.dumps(view)[:-1].encode() + b', "result": '
    pieces = await engine.payload_store.stream(kept, 0, kept.size)
    length = {"Content-Length": str(len(before) + kept.size + 1)}
    return StreamingResponse(_around(before, pieces), 200, {**headers, **length}, JSON)


async def _around(before: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield before
    async for piece in pieces:
        yield piece
    yield b"}"


def _graph_of(job: Job) -> Artifact:
    for artifact in job.artifacts:
        if artifact.name == ARTIFACT:
            return artifact
    raise BlobGone("the graph is not there any more")
