"""Errors in Ollama's format, and in that of its OpenAI routes."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse, Response

from coatcheck.http.errors import ErrorResponse
from coatcheck.model.job import Job
from coatcheck.model.state import Reason, State
from coatcheck.surfaces.foreman.job import REJECTED, TIMED_OUT

OPENAI = "/v1/"
# As Ollama: invalid input is a 400, and a job that is gone is unknown.
_STATUSES = {422: 400, 410: 404}
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


def format_error(error: ErrorResponse, path: str) -> Response:
    """Write an error response in the format of this path."""
    status = _STATUSES.get(error.status, error.status)
    return write_error(status, error.detail, path, error.headers)


def write_error(
    status: int, message: str, path: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Write an error in the format of this path."""
    if not path.startswith(OPENAI):
        return JSONResponse({"error": message}, status, headers)
    error_type = _TYPES.get(status, "api_error")
    error = {"message": message, "type": error_type, "param": None, "code": None}
    return JSONResponse({"error": error}, status, headers)


def format_failure(job: Job, path: str) -> Response:
    """Write the error for a caller whose job failed: with the target's own status, if the target
    rejected the call.
    """
    headers = {"Coatcheck-Job": job.id}
    if job.state is State.CANCELLED:
        return write_error(503, f"job {job.id} was cancelled", path, headers)
    code = "" if job.error is None else job.error.code
    message = "no error was recorded" if job.error is None else job.error.message
    status = code.removeprefix(REJECTED)
    if code.startswith(REJECTED) and status.isdecimal():
        return write_error(int(status), message, path, headers)
    timed_out = job.reason in (Reason.TIMEOUT, Reason.EXPIRED) or code == TIMED_OUT
    return write_error(504 if timed_out else 502, message, path, headers)
