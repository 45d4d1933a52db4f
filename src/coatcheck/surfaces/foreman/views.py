"""The document's view of a job: state, result, and references to its artifacts.

The result is Ollama's own response, merged if it was streamed. Anything larger than 256 KB is not
part of the view but has a URL: the text of the response is the artifact `completion`, the whole
response is `response`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

from coatcheck.clock import to_rfc3339
from coatcheck.errors import BlobGone
from coatcheck.model.artifact import Artifact
from coatcheck.model.job import Job
from coatcheck.model.payload import is_reference
from coatcheck.model.state import State
from coatcheck.relay.call import BODY, StoredResponse
from coatcheck.relay.credentials import CallEncryption
from coatcheck.relay.replay import response_binding
from coatcheck.relay.upstream import one_chunk
from coatcheck.surfaces.foreman.constants import MODEL, state_of
from coatcheck.surfaces.foreman.stream_merge import (
    INLINE_BYTES,
    JSON,
    MergedStream,
    media_type_of,
    merge_stream,
)

COMPLETION, RESPONSE = "completion", "response"
TEXT = "text/plain; charset=utf-8"
CANCELLED = "cancelled"

Stream = Callable[[Artifact], Awaitable[AsyncIterator[bytes]]]


class ArtifactReference(NamedTuple):
    """An artifact of a job."""

    name: str
    content_type: str
    content: bytes


class ForemanOutcome(NamedTuple):
    """The result and the artifacts of a job that is done."""

    result: Any  # None if it is too large
    artifacts: list[ArtifactReference]


async def read_outcome(
    job: Job, stream: Stream, encryption: CallEncryption
) -> ForemanOutcome | None:
    """Read the outcome of a job; None if it has none, or its response cannot be parsed."""
    if job.state is not State.SUCCEEDED or job.result is None or is_reference(job.result):
        return None
    stored = StoredResponse.model_validate_json(job.result)
    response = encryption.decrypt_response(stored, response_binding(job))
    try:
        merged = await _merge(job, response, stream)
    except ValueError:
        return None
    whole = json.dumps(merged.result, ensure_ascii=False, separators=(",", ":")).encode()
    completion = ArtifactReference(COMPLETION, TEXT, merged.text.encode("utf-8", "replace"))
    if len(whole) <= INLINE_BYTES:
        return ForemanOutcome(merged.result, [completion])
    return ForemanOutcome(None, [completion, ArtifactReference(RESPONSE, JSON, whole)])


async def _merge(job: Job, response: StoredResponse, stream: Stream) -> MergedStream:
    media = media_type_of(response.headers)
    if not response.artifact:
        content = b"" if response.body is None else response.body.content
        return await merge_stream(one_chunk(content), media)
    for artifact in job.artifacts:
        if artifact.name == BODY:
            return await merge_stream(await stream(artifact), media)
    raise BlobGone(f"the response of job {job.id} no longer exists")


def job_view(job: Job, outcome: ForemanOutcome | None) -> dict[str, Any]:
    """Return the view of a job."""
    return {
        "job_id": job.public_id,
        "state": state_of(job),
        "model": job.labels.get(MODEL),
        "attempt": job.attempt,
        "created_at": to_rfc3339(job.created_at),
        "started_at": None if job.started_at is None else to_rfc3339(job.started_at),
        "finished_at": None if job.finished_at is None else to_rfc3339(job.finished_at),
        "error": error_of(job),
        **outcome_view(job, outcome),
    }


def outcome_view(job: Job, outcome: ForemanOutcome | None) -> dict[str, Any]:
    """Return the view of an outcome; null if there is none."""
    if outcome is None:
        return {"result": None, "artifacts": None}
    listed = [artifact_view(job, artifact) for artifact in outcome.artifacts]
    return {"result": outcome.result, "artifacts": listed}


def artifact_view(job: Job, artifact: ArtifactReference) -> dict[str, Any]:
    """Return the reference to an artifact, with its content if it is small."""
    is_small = len(artifact.content) <= INLINE_BYTES
    return {
        "name": artifact.name,
        "content_type": artifact.content_type,
        "size": len(artifact.content),
        "inline": artifact.content.decode() if is_small else None,
        "url": f"/jobs/{job.public_id}/artifacts/{artifact.name}",
    }


def error_of(job: Job) -> str | None:
    """Return the last error, even of a job that is retried; None if there was none."""
    if job.state is State.SUCCEEDED:
        return None
    if job.error is not None:
        return job.error.message
    return CANCELLED if job.state is State.CANCELLED else None
