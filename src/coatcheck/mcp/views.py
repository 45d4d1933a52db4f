"""Jobs as the results of tools."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import mcp_types as types

from coatcheck.errors import CoatcheckError, InvalidPayload
from coatcheck.http.errors import error_response
from coatcheck.http.jobs.views import artifact_view, dumps, error_view, job_json
from coatcheck.mcp.names import SURFACE
from coatcheck.model.job import API_SURFACE, Job
from coatcheck.model.payload import INLINE_BYTES, is_reference
from coatcheck.model.state import State


def ended(job: Job) -> types.CallToolResult:
    """Tell how a job has ended: its result, or why there is none."""
    structured: dict[str, Any] = {"job_id": job.id, "state": str(job.state)}
    if job.artifacts:
        structured["artifacts"] = [artifact_view(job, each) for each in job.artifacts]
    match job.state:
        case State.SUCCEEDED if not _is_for_here(job):
            where = f"/v1/jobs/{job.id}/result"
            structured["result_at"] = where
            return _told(f"Job {job.id} has succeeded; its result is at {where}.", structured)
        case State.SUCCEEDED:
            result = json.loads(job.result or "null")
            structured["result"] = result
            return _told(result if isinstance(result, str) else dumps(result), structured)
        case State.CANCELLED:
            return _told(f"Job {job.id} was cancelled.", structured, is_error=True)
    said = "no error was kept" if job.error is None else f"{job.error.code}: {job.error.message}"
    structured |= {
        "reason": job.reason,
        "error": None if job.error is None else error_view(job.error),
    }
    return _told(f"Job {job.id} failed: {said}", structured, is_error=True)


def going_on(job: Job, tools: Iterable[str]) -> types.CallToolResult:
    """Tell that a job has not ended, and how to come back for it."""
    come_back = ", ".join(tools)
    advice = f" Come back with its job_id: {come_back}." if come_back else ""
    text = f"Job {job.id} is {describe(job)}; it goes on by itself.{advice}"
    return _told(text, {"job_id": job.id, "state": str(job.state), "progress": _progress(job)})


def status(job: Job) -> types.CallToolResult:
    """Show a job as it stands, without its result."""
    view = json.loads(job_json(replace(job, result=None)))
    del view["result"]
    return _told(dumps(view), {"job_id": view.pop("id"), **view})


def refused(error: CoatcheckError, below: str = "") -> types.CallToolResult:
    """Tell why nothing was done, in words that help to do it right. The arguments of the tool are
    what is `below` this pointer.
    """
    refusal = error_response(error)
    structured: dict[str, Any] = {"code": refusal.code}
    if isinstance(error, InvalidPayload):
        structured["errors"] = [
            {"pointer": at.removeprefix(below), "detail": what} for at, what in error.problems
        ]
    if "Retry-After" in (refusal.headers or {}):
        structured["retry_after_s"] = int((refusal.headers or {})["Retry-After"])
    return _told(refusal.detail, structured, is_error=True)


def describe(job: Job) -> str:
    """Say in a few words where a job is."""
    words = [str(job.state)]
    if job.phase:
        words.append(f"({job.phase})")
    if job.progress is not None:
        total = "" if job.progress.total is None else f" of {job.progress.total:g}"
        words.append(f"at {job.progress.done:g}{total}")
        if job.progress.message:
            words[-1] += f": {job.progress.message}"
    return " ".join(words)


def _is_for_here(job: Job) -> bool:
    """Tell whether a result can be told: it is not too large, and no other surface's, which may
    have its own way to show it, and to some only.
    """
    if job.surface not in (API_SURFACE, SURFACE):
        return False
    result = job.result or "null"
    return not is_reference(result) and len(result) <= INLINE_BYTES


def _progress(job: Job) -> dict[str, Any] | None:
    if job.progress is None:
        return None
    return {
        "done": job.progress.done,
        "total": job.progress.total,
        "message": job.progress.message,
    }


def _told(text: str, structured: dict[str, Any], *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text=text)], structured_content=structured, is_error=is_error
    )
