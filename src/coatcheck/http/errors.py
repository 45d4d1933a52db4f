"""Error responses: RFC 9457 problem documents, or the format of a surface.

The `type` of a problem is `urn:coatcheck:<code>`. A released code never changes; its text may.
A surface has its own error format. It applies to every path below the surface's prefixes, no matter
which part rejects the request: the middleware, the router or the surface's own handler.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.errors import (
    BlobGone,
    BlobStoreUnavailable,
    CoatcheckError,
    Conflict,
    EgressDenied,
    Forbidden,
    Gone,
    InputGone,
    InvalidInput,
    InvalidPayload,
    KeyMissing,
    KeyReused,
    NoSignedUploads,
    NotFound,
    PaymentRequired,
    QuotaExceeded,
    StoreUnavailable,
    TenantSuspended,
    TooLarge,
    TooManyOpen,
    Unauthorized,
    UnknownKind,
    UploadGone,
    UploadInProgress,
)
from coatcheck.logs import correlation_id

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"

# The first match decides, so subclasses stand before their base classes.
STATUS: tuple[tuple[type[CoatcheckError], int], ...] = (
    (Gone, 410),
    (BlobGone, 410),
    (NotFound, 404),
    (UnknownKind, 422),
    (EgressDenied, 422),
    (InvalidPayload, 422),
    (TooLarge, 413),
    (InvalidInput, 400),
    (KeyReused, 422),
    (InputGone, 409),
    (UploadGone, 409),
    (UploadInProgress, 409),
    (NoSignedUploads, 409),
    (Conflict, 409),
    (PaymentRequired, 402),
    (TenantSuspended, 403),
    (Forbidden, 403),
    (Unauthorized, 401),
    (TooManyOpen, 429),
    (QuotaExceeded, 429),
    (BlobStoreUnavailable, 503),
    (KeyMissing, 503),
    (StoreUnavailable, 503),
)
# Codes of errors that Starlette or the request readers raise.
CODES = {
    400: "bad-request",
    404: "not-found",
    405: "method-not-allowed",
    406: "not-acceptable",
    408: "timeout",
    413: "too-large",
    415: "unsupported-media-type",
}
# A guess: the recovery time of a store that is down or full is unknown.
STORE_RETRY_S = 5


class ErrorResponse(NamedTuple):
    """An error response before it is serialized."""

    status: int
    code: str
    detail: str
    errors: Sequence[tuple[str, str]] = ()  # (JSON pointer, problem)
    headers: Mapping[str, str] | None = None


# Serializes an error for the request path.
ErrorFormatter = Callable[[ErrorResponse, str], Response]


class ErrorFormats:
    """The error formats by path prefix; problem documents elsewhere."""

    def __init__(self, by_prefix: Mapping[str, ErrorFormatter]) -> None:
        # Longest prefix first: the most specific one decides.
        self._by_prefix = sorted(by_prefix.items(), key=lambda item: -len(item[0]))

    def format_error(self, error: ErrorResponse, path: str) -> Response:
        """Serialize an error in the format of the path."""
        for prefix, formatter in self._by_prefix:
            if path == prefix or path.startswith(f"{prefix}/"):
                return formatter(error, path)
        return format_problem(error, path)

    def format_exception(self, error: Exception, path: str) -> Response:
        """Convert an exception to a response in the format of the path."""
        return self.format_error(error_response(error), path)


async def handle_error(request: Request, error: Exception) -> Response:
    """Convert an exception raised by a route to its response."""
    formats: ErrorFormats = request.app.state.error_formats
    return formats.format_exception(error, request.scope["path"])


def problem_response(
    status: int,
    code: str,
    detail: str,
    *,
    errors: Sequence[tuple[str, str]] = (),
    headers: Mapping[str, str] | None = None,
    extra: Mapping[str, object] | None = None,
) -> Response:
    """Build a problem document; `extra` adds extension members."""
    body: dict[str, object] = {
        "type": f"urn:coatcheck:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    body.update(extra or {})
    if errors:
        body["errors"] = [{"pointer": pointer, "detail": what} for pointer, what in errors]
    if (correlation := correlation_id.get()) is not None:
        body["correlation_id"] = correlation
    return Response(json.dumps(body), status, headers, MEDIA_TYPE)


def format_problem(error: ErrorResponse, _path: str) -> Response:
    """Serialize an error as a problem document."""
    status, code, detail, errors, headers = error
    return problem_response(status, code, detail, errors=errors, headers=headers)


def error_response(error: Exception) -> ErrorResponse:
    """Map an exception to its error response.

    An unexpected exception is logged and becomes a 500 without its text, which may contain
    anything.
    """
    if isinstance(error, CoatcheckError):
        for kind, status in STATUS:
            if isinstance(error, kind):
                pointers = (
                    error.problems if isinstance(error, (InvalidPayload, UnknownKind)) else ()
                )
                headers = _headers_of(status, error)
                return ErrorResponse(status, error.code, str(error), pointers, headers)
    if isinstance(error, HTTPException):
        code = CODES.get(error.status_code, "refused")
        return ErrorResponse(error.status_code, code, error.detail, headers=error.headers)
    log.error("request failed", exc_info=error)
    return ErrorResponse(500, "internal", "internal error; it was logged with this correlation id")


def _headers_of(status: int, error: CoatcheckError) -> dict[str, str] | None:
    if status == 503:
        return {"Retry-After": str(STORE_RETRY_S)}
    if status == 401:
        return {"WWW-Authenticate": 'Bearer realm="coatcheck"'}
    if isinstance(error, UploadInProgress):  # the body is not read
        return {"Retry-After": str(error.retry_after_s), "Connection": "close"}
    if isinstance(error, QuotaExceeded):
        window = "" if error.window_s is None else f";w={error.window_s}"
        headers = {
            "Retry-After": str(error.retry_after_s),
            "RateLimit-Policy": f'"{error.quota}";q={error.limit}{window}',
            "RateLimit": f'"{error.quota}";r=0;t={error.retry_after_s}',
        }
        # The body of an upload is not read, and this quota limits connections.
        return {**headers, "Connection": "close"} if isinstance(error, TooManyOpen) else headers
    return None
