"""Tool results for jobs and errors."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import mcp_types as types

from coatcheck.errors import CoatcheckError, InvalidPayload
from coatcheck.http.errors import error_response
from coatcheck.http.jobs.views import artifact_view, dumps, error_view, job_json
from coatcheck.mcp.constants import SURFACE
from coatcheck.model.job import API_SURFACE, Job
from coatcheck.model.payload import INLINE_BYTES, is_reference
from coatcheck.model.state import State


def finished_result(job: Job) -> types.CallToolResult:
    """Return a finished job's result or error."""
    structured: dict[str, Any] = {"job_id": job.id, "state": str(job.state)}
    if job.artifacts:
        structured["artifacts"] = [artifact_view(job, each) for each in job.artifacts]
    match job.state:
        case State.SUCCEEDED if not _is_shown_inline(job):
            path = f"/v1/jobs/{job.id}/result"
            structured["result_at"] = path
            return _tool_result(f"Job {job.id} succeeded; its result is at {path}.", structured)
        case State.SUCCEEDED:
            result = json.loads(job.result or "null")
            structured["result"] = result
            return _tool_result(result if isinstance(result, str) else dumps(result), structured)
        case State.CANCELLED:
            return _tool_result(f"Job {job.id} was cancelled.", structured, is_error=True)
    reason = (
        "no error was recorded" if job.error is None else f"{job.error.code}: {job.error.message}"
    )
    structured |= {
        "reason": job.reason,
        "error": None if job.error is None else error_view(job.error),
    }
    return _tool_result(f"Job {job.id} failed: {reason}", structured, is_error=True)


def unfinished_result(job: Job, tools: Iterable[str]) -> types.CallToolResult:
    """Report an unfinished job, and name the tools that work on it."""
    names = ", ".join(tools)
    advice = f" Use its job_id with: {names}." if names else ""
    text = f"Job {job.id} is {describe(job)}; it continues in the background.{advice}"
    return _tool_result(
        text, {"job_id": job.id, "state": str(job.state), "progress": _progress(job)}
    )


def status_result(job: Job) -> types.CallToolResult:
    """Return a job's current state, without its result."""
    view = json.loads(job_json(replace(job, result=None)))
    del view["result"]
    return _tool_result(dumps(view), {"job_id": view.pop("id"), **view})


def error_result(error: CoatcheckError, below: str = "") -> types.CallToolResult:
    """Return an error that helps to correct the call.

    The pointer `below` is removed from problems: it leads to the tool's arguments.
    """
    refusal = error_response(error)
    structured: dict[str, Any] = {"code": refusal.code}
    if isinstance(error, InvalidPayload):
        structured["errors"] = [
            {"pointer": at.removeprefix(below), "detail": detail} for at, detail in error.problems
        ]
    if "Retry-After" in (refusal.headers or {}):
        structured["retry_after_s"] = int((refusal.headers or {})["Retry-After"])
    return _tool_result(refusal.detail, structured, is_error=True)


def describe(job: Job) -> str:
    """Describe a job's state and progress."""
    words = [str(job.state)]
    if job.phase:
        words.append(f"({job.phase})")
    if job.progress is not None:
        total = "" if job.progress.total is None else f" of {job.progress.total:g}"
        words.append(f"at {job.progress.done:g}{total}")
        if job.progress.message:
            words[-1] += f": {job.progress.message}"
    return " ".join(words)


def _is_shown_inline(job: Job) -> bool:
    """Tell whether a result can be shown: it is small, and from this surface or the API.

    Other surfaces may format results their own way, or restrict them.
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


def _tool_result(
    text: str, structured: dict[str, Any], *, is_error: bool = False
) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text=text)], structured_content=structured, is_error=is_error
    )
