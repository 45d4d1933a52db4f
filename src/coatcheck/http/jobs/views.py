"""A job as the canonical API shows it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from coatcheck.clock import to_rfc3339
from coatcheck.engine.explain import MAX_POSITION
from coatcheck.model.artifact import Artifact
from coatcheck.model.event import JobEvent
from coatcheck.model.job import Failure, Job, JobInsert
from coatcheck.model.payload import is_reference
from coatcheck.model.step import Step
from coatcheck.model.transition import NEVER


def job_json(job: Job, extra: Mapping[str, Any] | None = None) -> str:
    """Write a job as JSON. The result is JSON already and goes in as it is, unless it is elsewhere:
    then `result_omitted` says so.
    """
    before, after = _before_result(job), _after_result(job)
    result = "null" if job.result is None else job.result
    if is_reference(result):
        result, after["result_omitted"] = "null", True
    if extra:
        after.update(extra)
    return f'{dumps(before)[:-1]},"result":{result},{dumps(after)[1:]}'


def submitted_json(job: JobInsert) -> str:
    """Write a job that was just taken in: what `job_json` makes of it, without the detours."""
    created_at = to_rfc3339(job.created_at)
    run_at = created_at if job.run_at == job.created_at else to_rfc3339(job.run_at)
    return (
        f'{{"id":"{job.id}","kind":"{job.kind}","surface":"{job.surface}","queue":"{job.queue}",'
        '"state":"queued","phase":null,"reason":null,"attempt":0,'
        f'"max_attempts":{job.terms.max_attempts},"priority":{job.priority},"progress":null,'
        f'"created_at":"{created_at}","run_at":"{run_at}",'
        '"started_at":null,"finished_at":null,"expires_at":null,'
        f'"labels":{job.labels},"parent":null,"forked_from":null,"result":null,"error":null,'
        f'"artifacts":[],"links":{{"self":"/v1/jobs/{job.id}",'
        f'"result":"/v1/jobs/{job.id}/result","steps":"/v1/jobs/{job.id}/steps",'
        f'"events":"/v1/jobs/{job.id}/events",'
        f'"cancel":"/v1/jobs/{job.id}/cancel"}}}}'
    )


def position_view(ahead: int | None) -> dict[str, Any]:
    """Write a job's place in its queue, from 1: exact up to a point, then as "1000+"."""
    if ahead is None:
        return {}
    return {"position": f"{MAX_POSITION}+" if ahead >= MAX_POSITION else ahead + 1}


def event_json(event: JobEvent) -> str:
    """Write an entry of a job's log. Its data is JSON already."""
    head = {"seq": event.seq, "type": event.type, "at": to_rfc3339(event.at)}
    return f'{dumps(head)[:-1]},"data":{event.data}}}'


def events_json(events: Sequence[JobEvent], job: Job) -> str:
    """Write a page of a job's log, and where the log stands."""
    entries = ",".join(event_json(event) for event in events)
    ended = "true" if job.state.is_terminal else "false"
    return f'{{"events":[{entries}],"last":{job.last_event},"ended":{ended}}}'


def steps_json(steps: Sequence[Step]) -> str:
    """Write what a job has done so far."""
    return f'{{"steps":[{",".join(map(_step_json, steps))}]}}'


def _step_json(step: Step) -> str:
    said = {
        "seq": step.seq,
        "op": step.id.op,
        "name": step.id.name,
        "key": step.id.key,
        "occurrence": step.id.occurrence,
        "state": step.state,
        "attempts": step.attempts,
        "started_at": to_rfc3339(step.started_at),
        "finished_at": _time(step.finished_at),
    }
    if step.wake_at is not None:
        said["wake_at"] = to_rfc3339(step.wake_at)
    if step.error is not None:
        said["error"] = failure_view(step.error)
    # The result is JSON already and goes in as it is, unless it is elsewhere.
    if step.result is None:
        result = ""
    elif is_reference(step.result):
        result = ',"result":null,"result_omitted":true'
    else:
        result = f',"result":{step.result}'
    return f"{dumps(said)[:-1]}{result}}}"


def failure_view(error: Failure | None) -> dict[str, Any] | None:
    """Write why a job failed."""
    if error is None:
        return None
    return {
        "code": error.code,
        "message": error.message,
        "detail": error.detail,
        "retryable": error.retryable,
    }


def artifact_view(job: Job, artifact: Artifact) -> dict[str, Any]:
    """Write a file that a job has left behind."""
    return {
        "name": artifact.name,
        "content_type": artifact.content_type,
        "size": artifact.size,
        "sha256": artifact.sha256,
        "created_at": to_rfc3339(artifact.created_at),
        "url": f"/v1/jobs/{job.id}/artifacts/{artifact.name}",
    }


# Writes JSON the way all of the API does: compact, and text as itself.
dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _before_result(job: Job) -> dict[str, Any]:
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
        "progress": progress
        and {"done": progress.done, "total": progress.total, "message": progress.message},
        "created_at": to_rfc3339(job.created_at),
        "run_at": None if job.run_at == NEVER else to_rfc3339(job.run_at),
        "started_at": _time(job.started_at),
        "finished_at": _time(job.finished_at),
        "expires_at": _time(job.expires_at),
        "labels": job.labels,
        "parent": job.terms.parent,
        "forked_from": job.forked_from,
    }


def _after_result(job: Job) -> dict[str, Any]:
    path = f"/v1/jobs/{job.id}"
    return {
        "error": failure_view(job.error),
        "artifacts": [artifact_view(job, artifact) for artifact in job.artifacts],
        "links": {
            "self": path,
            "result": f"{path}/result",
            "steps": f"{path}/steps",
            "events": f"{path}/events",
            "cancel": f"{path}/cancel",
        },
    }


def _time(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else to_rfc3339(milliseconds)
