"""Errors on the wire: RFC 9457 problem documents with a stable `type`.

`type` is `urn:coatcheck:<code>`; the code never changes once released, the sentences may.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple

from starlette.exceptions import HTTPException
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
    UploadUnderWay,
)
from coatcheck.logs import correlation_id

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"

# The first entry that fits decides: the more particular error stands first.
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
    (UploadUnderWay, 409),
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
# For what is refused before it reaches the engine.
CODES = {
    400: "bad-request",
    404: "not-found",
    405: "method-not-allowed",
    406: "not-acceptable",
    408: "timeout",
    413: "too-large",
    415: "unsupported-media-type",
}
# A store that is down or full is asked again after this long; a guess, as nobody can know.
STORE_RETRY_S = 5


class ErrorResponse(NamedTuple):
    """Why a request is not answered as it was hoped, before anybody has put it in words."""

    status: int
    code: str
    detail: str
    errors: Sequence[tuple[str, str]] = ()  # pointers, and what is wrong there
    headers: Mapping[str, str] | None = None


# How a refusal is written on some paths: with the path that was asked for.
Shape = Callable[[ErrorResponse, str], Response]


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    errors: Sequence[tuple[str, str]] = (),
    headers: Mapping[str, str] | None = None,
    extra: Mapping[str, object] | None = None,
) -> Response:
    """Make a problem document; `extra` are members of its own."""
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


def as_problem(refusal: ErrorResponse, _path: str) -> Response:
    """Write a refusal as the canonical API does."""
    status, code, detail, errors, headers = refusal
    return problem(status, code, detail, errors=errors, headers=headers)


def refusal_of(error: Exception) -> ErrorResponse:
    """Say what any exception comes to. One that nobody expected is logged, and its words, which may
    hold anything, are kept back.
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
    log.error("a request failed", exc_info=error)
    return ErrorResponse(500, "internal", "something went wrong here; it was logged under this id")


def _headers_of(status: int, error: CoatcheckError) -> dict[str, str] | None:
    if status == 503:
        return {"Retry-After": str(STORE_RETRY_S)}
    if status == 401:
        return {"WWW-Authenticate": 'Bearer realm="coatcheck"'}
    if isinstance(error, UploadUnderWay):  # whose bytes are not read
        return {"Retry-After": str(error.retry_after_s), "Connection": "close"}
    if isinstance(error, QuotaExceeded):
        window = "" if error.window_s is None else f";w={error.window_s}"
        headers = {
            "Retry-After": str(error.retry_after_s),
            "RateLimit-Policy": f'"{error.quota}";q={error.limit}{window}',
            "RateLimit": f'"{error.quota}";r=0;t={error.retry_after_s}',
        }
        # The body of an upload is not read, and the connection is what there are too many of.
        return {**headers, "Connection": "close"} if isinstance(error, TooManyOpen) else headers
    return None
