"""A job as the canonical API shows it."""

from __future__ import annotations

import json
from typing import Any

from coatcheck.clock import to_rfc3339
from coatcheck.model.job import Job


def job_view(job: Job) -> dict[str, Any]:
    """Return a job as the JSON object of the contract."""
    progress, error = job.progress, job.error
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
        "result": None if job.result is None else json.loads(job.result),
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


def _time(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else to_rfc3339(milliseconds)
