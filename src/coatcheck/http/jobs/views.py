"""The JSON documents of jobs, events, steps and artifacts.

Results and event data are stored as JSON text and written into the document unparsed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from coatcheck.clock import to_rfc3339
from coatcheck.documents.jobs import (
    ArtifactDocument,
    ErrorDocument,
    JobExtras,
    JobHead,
    JobTail,
    StepDocument,
)
from coatcheck.engine.explain import MAX_POSITION
from coatcheck.model.artifact import Artifact
from coatcheck.model.event import JobEvent
from coatcheck.model.job import Failure, Job
from coatcheck.model.payload import is_reference
from coatcheck.model.step import Step
from coatcheck.model.transition import NEVER

# Every response is compact JSON with unescaped text.
dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def job_json(job: Job, extra: JobExtras | None = None) -> str:
    """Serialize a job. A result in the blob store is replaced by `result_omitted`."""
    tail: JobTail = {**_job_tail(job), **(extra or {})}
    result = "null" if job.result is None else job.result
    if is_reference(result):
        result, tail["result_omitted"] = "null", True
    return f'{dumps(_job_head(job))[:-1]},"result":{result},{dumps(tail)[1:]}'


def position_view(ahead: int | None) -> JobExtras:
    """Return a job's position in its queue, from 1: exact up to a limit, then "1000+"."""
    if ahead is None:
        return {}
    return {"position": f"{MAX_POSITION}+" if ahead >= MAX_POSITION else ahead + 1}


def event_json(event: JobEvent) -> str:
    """Serialize an entry of a job's event log."""
    head = {"seq": event.seq, "type": event.type, "at": to_rfc3339(event.at)}
    return f'{dumps(head)[:-1]},"data":{event.data}}}'


def events_json(events: Sequence[JobEvent], job: Job) -> str:
    """Serialize a page of a job's event log, with the number of its last event."""
    entries = ",".join(event_json(event) for event in events)
    ended = "true" if job.state.is_terminal else "false"
    return f'{{"events":[{entries}],"last":{job.last_event},"ended":{ended}}}'


def steps_json(steps: Sequence[Step]) -> str:
    """Serialize the steps of a job."""
    return f'{{"steps":[{",".join(map(_step_json, steps))}]}}'


def _step_json(step: Step) -> str:
    document: StepDocument = {
        "seq": step.seq,
        "op": step.id.op,
        "name": step.id.name,
        "key": step.id.key,
        "occurrence": step.id.occurrence,
        "state": step.state,
        "attempts": step.attempts,
        "started_at": to_rfc3339(step.started_at),
        "finished_at": optional_time(step.finished_at),
    }
    if step.wake_at is not None:
        document["wake_at"] = to_rfc3339(step.wake_at)
    if step.error is not None:
        document["error"] = error_view(step.error)
    if step.result is None:
        result = ""
    elif is_reference(step.result):
        result = ',"result":null,"result_omitted":true'
    else:
        result = f',"result":{step.result}'
    return f"{dumps(document)[:-1]}{result}}}"


def error_view(error: Failure) -> ErrorDocument:
    """Return the error of a failed job or step."""
    return {
        "code": error.code,
        "message": error.message,
        "detail": error.detail,
        "retryable": error.retryable,
    }


def artifact_view(job: Job, artifact: Artifact) -> ArtifactDocument:
    """Return a file that a job created."""
    return {
        "name": artifact.name,
        "content_type": artifact.content_type,
        "size": artifact.size,
        "sha256": artifact.sha256,
        "created_at": to_rfc3339(artifact.created_at),
        "url": f"/v1/jobs/{job.id}/artifacts/{artifact.name}",
    }


def optional_time(milliseconds: int | None) -> str | None:
    """Return a time as RFC 3339, or None."""
    return None if milliseconds is None else to_rfc3339(milliseconds)


def _job_head(job: Job) -> JobHead:
    progress = job.progress
    return {
        "id": job.id,
        "kind": job.kind,
        "surface": job.surface,
        "queue": job.queue,
        "state": job.state,
        "phase": job.phase,
        "reason": job.reason,
        "attempt": job.attempt,
        "max_attempts": job.terms.max_attempts,
        "priority": job.priority,
        "progress": None
        if progress is None
        else {"done": progress.done, "total": progress.total, "message": progress.message},
        "created_at": to_rfc3339(job.created_at),
        "run_at": None if job.run_at == NEVER else to_rfc3339(job.run_at),
        "started_at": optional_time(job.started_at),
        "finished_at": optional_time(job.finished_at),
        "expires_at": optional_time(job.expires_at),
        "labels": dict(job.labels),
        "parent": job.terms.parent,
        "forked_from": job.forked_from,
    }


def _job_tail(job: Job) -> JobTail:
    path = f"/v1/jobs/{job.id}"
    return {
        "error": None if job.error is None else error_view(job.error),
        "artifacts": [artifact_view(job, artifact) for artifact in job.artifacts],
        "links": {
            "self": path,
            "result": f"{path}/result",
            "steps": f"{path}/steps",
            "events": f"{path}/events",
            "cancel": f"{path}/cancel",
        },
    }
