"""A job as the canonical API shows it."""

from __future__ import annotations

import json
from typing import Any

from coatcheck.clock import to_rfc3339
from coatcheck.model.job import Job


def job_json(job: Job) -> str:
    """Write a job as JSON. The result is JSON already and goes in as it is."""
    before, after = _before_result(job), _after_result(job)
    result = "null" if job.result is None else job.result
    return f'{_dumps(before)[:-1]},"result":{result},{_dumps(after)[1:]}'


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
        "run_at": to_rfc3339(job.run_at),
        "started_at": _time(job.started_at),
        "finished_at": _time(job.finished_at),
        "expires_at": _time(job.expires_at),
        "labels": job.labels,
        "parent": None,
        "forked_from": None,
    }


def _after_result(job: Job) -> dict[str, Any]:
    error = job.error
    return {
        "error": error
        and {
            "code": error.code,
            "message": error.message,
            "detail": error.detail,
            "retryable": error.retryable,
        },
        "artifacts": [],
        "links": {"self": f"/v1/jobs/{job.id}", "cancel": f"/v1/jobs/{job.id}/cancel"},
    }


def _dumps(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _time(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else to_rfc3339(milliseconds)
