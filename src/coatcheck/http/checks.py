"""What every route asks of a request before it does anything."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request

_ACCEPTABLE = {"*/*", "application/*", "application/json", "application/problem+json"}


def check_request(request: Request, *parameters: str) -> None:
    """Refuse query parameters that mean nothing here (400) and callers who take no JSON (406)."""
    unknown = set(request.query_params) - set(parameters)
    if unknown:
        raise HTTPException(400, f"unknown query parameter: {min(unknown)!r}")
    accept = request.headers.get("accept", "*/*")
    if accept and not _ACCEPTABLE & {part.partition(";")[0].strip() for part in accept.split(",")}:
        raise HTTPException(406, "the answer is application/json, which is not accepted")
