"""The calls on files that are handed in before their job."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.clock import to_rfc3339
from coatcheck.engine.engine import Engine
from coatcheck.engine.payloads.signed_uploads import DeclaredUpload
from coatcheck.errors import TooLarge
from coatcheck.http.auth.caller import quotas_of, tenant_of
from coatcheck.http.endpoint import JSON
from coatcheck.http.jobs.views import dumps
from coatcheck.http.request.body import (
    body_too_large,
    check_declared_length,
    media_type_of,
    stream_body,
)
from coatcheck.http.request.idempotency import REPLAYED, read_key
from coatcheck.http.request.models import RequestModel, read_model
from coatcheck.http.request.multipart import FORM_OVERHEAD, read_file
from coatcheck.model.upload import LARGEST_UPLOAD, SHA256_PATTERN, StoredUpload

log = logging.getLogger(__name__)

FORM = "multipart/form-data"


class SignedRequest(RequestModel):
    """What a client is about to write to the blob store itself."""

    size: int = Field(ge=0, le=LARGEST_UPLOAD)
    sha256: str | None = Field(default=None, pattern=SHA256_PATTERN)
    name: str | None = None
    content_type: str | None = None


async def upload(request: Request) -> Response:
    """Take a file: the body as it is, or the one file of a form. It is written away while it
    comes.
    """
    engine: Engine = request.app.state.engine
    limit = engine.uploads.limit
    is_form = media_type_of(request) == FORM
    check_declared_length(request, limit + (FORM_OVERHEAD if is_form else 0))
    key = read_key(request)
    room = None
    if not await engine.uploads.is_replay(key, tenant_of(request)):
        room = await _room(request, 0 if is_form else _declared(request))
    name, content_type = request.query_params.get("name"), request.headers.get("content-type")
    pieces: AsyncIterator[bytes] = stream_body(request)
    if is_form:
        name, content_type, pieces = await read_file(content_type or "", pieces)
    try:
        taken = await engine.uploads.receive(
            pieces,
            name,
            content_type,
            tenant=tenant_of(request),
            key=key,
            limit=limit if room is None else min(limit, room),
        )
    except TooLarge:
        if room is not None and room < limit:
            await _room(request, room + 1)  # says which quota it is
        raise body_too_large(limit) from None
    log.info("uploaded", extra={"upload": taken.upload.id, "bytes": taken.upload.size})
    headers = {"Location": f"/v1/uploads/{taken.upload.id}"}
    if taken.replayed:
        headers[REPLAYED] = "true"
    status = 200 if taken.replayed else 201
    return Response(dumps(upload_view(taken.upload)), status, headers, JSON)


async def get_upload(request: Request) -> Response:
    """Answer with what is known of a file that no job has taken over yet."""
    engine: Engine = request.app.state.engine
    found = await engine.uploads.get(request.path_params["upload_id"], tenant_of(request))
    return Response(dumps(upload_view(found)), media_type=JSON)


async def delete_upload(request: Request) -> Response:
    """Give a file up that no job has taken over."""
    engine: Engine = request.app.state.engine
    await engine.uploads.delete(request.path_params["upload_id"], tenant_of(request))
    return Response(status_code=204)


async def sign_upload(request: Request) -> Response:
    """Answer with an address of the blob store that the file can be written to directly."""
    engine: Engine = request.app.state.engine
    asked = await read_model(request, SignedRequest)
    await _room(request, asked.size)
    file = DeclaredUpload(asked.size, asked.sha256, asked.name, asked.content_type)
    signed = await engine.uploads.signed.begin(file, tenant_of(request))
    answer = {
        "id": signed.id,
        "method": "PUT",
        "url": signed.url,
        "headers": signed.headers,
        "expires_at": to_rfc3339(signed.expires_at),
        "links": {"complete": f"/v1/uploads/{signed.id}/complete"},
    }
    return Response(dumps(answer), 201, media_type=JSON)


async def complete_upload(request: Request) -> Response:
    """Take in what was written to a signed address, once it is what was said."""
    engine: Engine = request.app.state.engine
    upload_id = request.path_params["upload_id"]
    taken = await engine.uploads.signed.complete(upload_id, tenant_of(request))
    log.info("uploaded", extra={"upload": taken.id, "bytes": taken.size})
    return Response(dumps(upload_view(taken)), media_type=JSON)


async def _room(request: Request, size: int) -> int | None:
    """Return how many bytes the caller may still have kept, None for any number; raises
    QuotaExceeded where a file of this size does not fit.
    """
    quotas = quotas_of(request)
    if quotas is None:
        return None
    engine: Engine = request.app.state.engine
    return await engine.quotas.check_storage(tenant_of(request), quotas, size)


def _declared(request: Request) -> int:
    given = request.headers.get("content-length", "0")
    return int(given) if given.isdecimal() else 0


def upload_view(upload: StoredUpload) -> dict[str, Any]:
    """Return an upload as it is shown."""
    return {
        "id": upload.id,
        "name": upload.name,
        "content_type": upload.content_type,
        "size": upload.size,
        "sha256": upload.sha256,
        "created_at": to_rfc3339(upload.created_at),
        "expires_at": to_rfc3339(upload.expires_at),
        "links": {"self": f"/v1/uploads/{upload.id}"},
    }
