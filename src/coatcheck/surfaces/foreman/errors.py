"""Errors in Ollama's own shape, and in that of its OpenAI routes."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse, Response

from coatcheck.http.errors import ErrorResponse
from coatcheck.model.job import Job
from coatcheck.model.state import Reason, State
from coatcheck.surfaces.foreman.job import REFUSED, TOO_LATE

OPENAI = "/v1/"
# What is refused here as Ollama has it: bad input is 400, and what is gone was never there.
_STATUSES = {422: 400, 410: 404}
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


def format_error(refusal: ErrorResponse, path: str) -> Response:
    """Write a refusal as whoever asks on this path expects it."""
    status = _STATUSES.get(refusal.status, refusal.status)
    return error(status, refusal.detail, path, refusal.headers)


def error(status: int, words: str, path: str, headers: Mapping[str, str] | None = None) -> Response:
    """Write an error."""
    if not path.startswith(OPENAI):
        return JSONResponse({"error": words}, status, headers)
    kind = _TYPES.get(status, "api_error")
    said = {"message": words, "type": kind, "param": None, "code": None}
    return JSONResponse({"error": said}, status, headers)


def failed(job: Job, path: str) -> Response:
    """Tell somebody who waited for a job that has failed: with the target's own status, where it
    was the target that refused.
    """
    headers = {"Coatcheck-Job": job.id}
    if job.state is State.CANCELLED:
        return error(503, f"job {job.id} was cancelled", path, headers)
    code = "" if job.error is None else job.error.code
    words = "no error was kept" if job.error is None else job.error.message
    status = code.removeprefix(REFUSED)
    if code.startswith(REFUSED) and status.isdecimal():
        return error(int(status), words, path, headers)
    late = job.reason in (Reason.TIMEOUT, Reason.EXPIRED) or code == TOO_LATE
    return error(504 if late else 502, words, path, headers)
