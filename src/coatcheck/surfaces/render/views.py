"""JSON views of a render job."""

from __future__ import annotations

import json
from typing import Any

from coatcheck.clock import to_rfc3339
from coatcheck.model.job import Job
from coatcheck.model.state import State

CANCELLED = "cancelled"


def status_of(job: Job) -> str:
    """Return a job's status in the surface's terms.

    A job that has started stays `rendering`, even if it is queued again.
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
    """Return a job as JSON, with exactly the fields of its status."""
    status = status_of(job)
    view: dict[str, Any] = {
        "jobId": job.public_id,
        "status": status,
        "createdAt": to_rfc3339(job.created_at),
    }
    match status:
        case "rendering":
            assert job.started_at is not None, "a started job has a start time"
            view["startedAt"] = to_rfc3339(job.started_at)
        case "completed":
            view["completedAt"] = _finished_at(job)
            view["result"] = link_view(shortlink_of(job), base_url)
        case "failed":
            view["completedAt"] = _finished_at(job)
            view["error"] = error_of(job)
    return view


def submitted_view(public_id: str, base_url: str) -> dict[str, str]:
    """Return the response for a caller who does not wait."""
    return {"jobId": public_id, "status": "pending", "statusUrl": f"{base_url}/jobs/{public_id}"}


def link_view(shortlink: str, base_url: str) -> dict[str, str]:
    """Return the link to a picture as JSON."""
    return {"shortlink": shortlink, "url": f"{base_url}/d/{shortlink}"}


def shortlink_of(job: Job) -> str:
    """Return the shortlink of a succeeded job."""
    found: str = json.loads(job.result or "{}").get("shortlink") or ""
    return found


def error_of(job: Job) -> str:
    """Return the error of a failed job as one sentence."""
    if job.state is State.CANCELLED:
        return CANCELLED
    return job.error.message if job.error is not None else "no error was recorded"


def _finished_at(job: Job) -> str:
    assert job.finished_at is not None, "a finished job has a finish time"
    return to_rfc3339(job.finished_at)
