"""A job as its document shows it: state, result, and references to what it has left behind.

The result is Ollama's own answer, in one piece also where it was streamed. What is larger than 256
KB is not shown with its job but has an address: the text of the answer as the artifact
`completion`, the whole answer as `response`.
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
from coatcheck.relay.replay import answer_binding
from coatcheck.surfaces.foreman.constants import MODEL, state_of
from coatcheck.surfaces.foreman.stream_merge import (
    INLINE_BYTES,
    JSON,
    MergedStream,
    fold,
    media_type_of,
)

COMPLETION, RESPONSE = "completion", "response"
TEXT = "text/plain; charset=utf-8"
CANCELLED = "cancelled"

Stream = Callable[[Artifact], Awaitable[AsyncIterator[bytes]]]


class ArtifactReference(NamedTuple):
    """Something that a job has left behind."""

    name: str
    content_type: str
    content: bytes


class ForemanOutcome(NamedTuple):
    """What a job that is done has to show."""

    result: Any  # None where it is too large
    artifacts: list[ArtifactReference]


async def outcome_of(job: Job, stream: Stream, secrecy: CallEncryption) -> ForemanOutcome | None:
    """Read what a job has answered; None where it has not, or nothing can be made of it."""
    if job.state is not State.SUCCEEDED or job.result is None or is_reference(job.result):
        return None
    answer = secrecy.opened(StoredResponse.model_validate_json(job.result), answer_binding(job))
    try:
        folded = await _folded(job, answer, stream)
    except ValueError:
        return None
    whole = json.dumps(folded.result, ensure_ascii=False, separators=(",", ":")).encode()
    completion = ArtifactReference(COMPLETION, TEXT, folded.text.encode("utf-8", "replace"))
    if len(whole) <= INLINE_BYTES:
        return ForemanOutcome(folded.result, [completion])
    return ForemanOutcome(None, [completion, ArtifactReference(RESPONSE, JSON, whole)])


async def _folded(job: Job, answer: StoredResponse, stream: Stream) -> MergedStream:
    media = media_type_of(answer.headers)
    if not answer.artifact:
        return await fold(_once(b"" if answer.body is None else answer.body.content), media)
    for artifact in job.artifacts:
        if artifact.name == BODY:
            return await fold(await stream(artifact), media)
    raise BlobGone(f"the answer of job {job.id} is not there any more")


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


def job_view(job: Job, outcome: ForemanOutcome | None) -> dict[str, Any]:
    """Write a job."""
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
    """Write what a job has to show; null where it has not."""
    if outcome is None:
        return {"result": None, "artifacts": None}
    listed = [artifact_view(job, left) for left in outcome.artifacts]
    return {"result": outcome.result, "artifacts": listed}


def artifact_view(job: Job, left: ArtifactReference) -> dict[str, Any]:
    """Write a reference to what a job has left behind, and the thing itself where it is small."""
    is_small = len(left.content) <= INLINE_BYTES
    return {
        "name": left.name,
        "content_type": left.content_type,
        "size": len(left.content),
        "inline": left.content.decode() if is_small else None,
        "url": f"/jobs/{job.public_id}/artifacts/{left.name}",
    }


def error_of(job: Job) -> str | None:
    """Return what went wrong last, also of a job that is tried again; None where nothing did."""
    if job.state is State.SUCCEEDED:
        return None
    if job.error is not None:
        return job.error.message
    return CANCELLED if job.state is State.CANCELLED else None
