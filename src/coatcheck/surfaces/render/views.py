"""A render job in the words of its document."""

from __future__ import annotations

import json
from typing import Any

from coatcheck.clock import to_rfc3339
from coatcheck.model.job import Job
from coatcheck.model.state import State

CANCELLED = "cancelled"


def status_of(job: Job) -> str:
    """Return a job's state as the document names it: once begun it stays `rendering`, also where
    it had to be queued again.
    """
    match job.state:
        case State.SUCCEEDED:
            return "completed"
        case State.FAILED | State.CANCELLED:
            return "failed"
        case State.QUEUED if job.started_at is None:
            return "pending"
    return "rendering"


def job_view(job: Job, base_url: str) -> dict[str, Any]:
    """Write a job, with what its status has to say and nothing else."""
    status = status_of(job)
    said: dict[str, Any] = {
        "jobId": job.public_id,
        "status": status,
        "createdAt": to_rfc3339(job.created_at),
    }
    match status:
        case "rendering":
            assert job.started_at is not None, "what has begun has begun at some time"
            said["startedAt"] = to_rfc3339(job.started_at)
        case "completed":
            said["completedAt"] = _ended(job)
            said["result"] = link_view(shortlink_of(job), base_url)
        case "failed":
            said["completedAt"] = _ended(job)
            said["error"] = error_of(job)
    return said


def submitted_view(public_id: str, base_url: str) -> dict[str, str]:
    """Write what a caller gets who does not wait."""
    return {"jobId": public_id, "status": "pending", "statusUrl": f"{base_url}/jobs/{public_id}"}


def link_view(shortlink: str, base_url: str) -> dict[str, str]:
    """Write where a picture is."""
    return {"shortlink": shortlink, "url": f"{base_url}/d/{shortlink}"}


def shortlink_of(job: Job) -> str:
    """Return where the picture of a job that has succeeded is."""
    found: str = json.loads(job.result or "{}").get("shortlink") or ""
    return found


def error_of(job: Job) -> str:
    """Return why a job has failed, in a sentence."""
    if job.state is State.CANCELLED:
        return CANCELLED
    return job.error.message if job.error is not None else "no error was kept"


def _ended(job: Job) -> str:
    assert job.finished_at is not None, "what has ended has ended at some time"
    return to_rfc3339(job.finished_at)
