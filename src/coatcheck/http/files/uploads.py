"""Uploads: files that are sent before the job that needs them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.clock import to_rfc3339
from coatcheck.documents.jobs import SignedUploadDocument, UploadDocument
from coatcheck.engine.engine import Engine
from coatcheck.engine.payloads.signed_uploads import DeclaredUpload
from coatcheck.errors import TooLarge
from coatcheck.http.auth.caller import quotas_of, tenant_of
from coatcheck.http.endpoint import (
    ANY,
    IDEMPOTENCY_KEY,
    JSON,
    Endpoint,
    EndpointBody,
    EndpointResponse,
    KindRule,
    Parameter,
    as_json,
    ref,
)
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
    """A file that the client will write to the blob store itself."""

    size: int = Field(ge=0, le=LARGEST_UPLOAD)
    sha256: str | None = Field(default=None, pattern=SHA256_PATTERN)
    name: str | None = None
    content_type: str | None = None


async def upload(request: Request) -> Response:
    """Upload a file: the raw body, or the only file of a form. The file is streamed to the blob
    store.
    """
    engine: Engine = request.app.state.engine
    limit = engine.uploads.limit
    is_form = media_type_of(request) == FORM
    check_declared_length(request, limit + (FORM_OVERHEAD if is_form else 0))
    key = read_key(request)
    remaining = None
    if not await engine.uploads.is_replay(key, tenant_of(request)):
        remaining = await _check_quota(request, 0 if is_form else _declared_length(request))
    name, content_type = request.query_params.get("name"), request.headers.get("content-type")
    pieces: AsyncIterator[bytes] = stream_body(request)
    if is_form:
        name, content_type, pieces = await read_file(content_type or "", pieces)
    try:
        stored = await engine.uploads.receive(
            pieces,
            name,
            content_type,
            tenant=tenant_of(request),
            key=key,
            limit=limit if remaining is None else min(limit, remaining),
        )
    except TooLarge:
        if remaining is not None and remaining < limit:
            await _check_quota(request, remaining + 1)  # raises the error that names the quota
        raise body_too_large(limit) from None
    log.info("file uploaded", extra={"upload": stored.upload.id, "bytes": stored.upload.size})
    headers = {"Location": f"/v1/uploads/{stored.upload.id}"}
    if stored.replayed:
        headers[REPLAYED] = "true"
    status = 200 if stored.replayed else 201
    return Response(dumps(upload_view(stored.upload)), status, headers, JSON)


async def get_upload(request: Request) -> Response:
    """Return an upload that no job has used yet."""
    engine: Engine = request.app.state.engine
    found = await engine.uploads.get(request.path_params["upload_id"], tenant_of(request))
    return Response(dumps(upload_view(found)), media_type=JSON)


async def delete_upload(request: Request) -> Response:
    """Delete an upload that no job has used."""
    engine: Engine = request.app.state.engine
    await engine.uploads.delete(request.path_params["upload_id"], tenant_of(request))
    return Response(status_code=204)


async def sign_upload(request: Request) -> Response:
    """Return a signed URL of the blob store to which the client writes the file."""
    engine: Engine = request.app.state.engine
    wanted = await read_model(request, SignedRequest)
    await _check_quota(request, wanted.size)
    file = DeclaredUpload(wanted.size, wanted.sha256, wanted.name, wanted.content_type)
    signed = await engine.uploads.signed.begin(file, tenant_of(request))
    document: SignedUploadDocument = {
        "id": signed.id,
        "method": "PUT",
        "url": signed.url,
        "headers": dict(signed.headers),
        "expires_at": to_rfc3339(signed.expires_at),
        "links": {"complete": f"/v1/uploads/{signed.id}/complete"},
    }
    return Response(dumps(document), 201, media_type=JSON)


async def complete_upload(request: Request) -> Response:
    """Complete a signed upload: verify the size and hash of the written file."""
    engine: Engine = request.app.state.engine
    upload_id = request.path_params["upload_id"]
    stored = await engine.uploads.signed.complete(upload_id, tenant_of(request))
    log.info("file uploaded", extra={"upload": stored.id, "bytes": stored.size})
    return Response(dumps(upload_view(stored)), media_type=JSON)


async def _check_quota(request: Request, size: int) -> int | None:
    """Return how many more bytes the tenant may store, or None if there is no limit.

    Raise QuotaExceeded if a file of this size does not fit.
    """
    quotas = quotas_of(request)
    if quotas is None:
        return None
    engine: Engine = request.app.state.engine
    return await engine.quotas.check_storage(tenant_of(request), quotas, size)


def _declared_length(request: Request) -> int:
    given = request.headers.get("content-length", "0")
    return int(given) if given.isdecimal() else 0


def upload_view(upload: StoredUpload) -> UploadDocument:
    """Return an upload."""
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


_UPLOAD = as_json(ref("Upload"))
_BYTES = {"type": "string", "format": "binary"}

UPLOADS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        "/v1/uploads",
        upload,
        "upload",
        "Upload a file for a job",
        "uploads",
        {
            200: EndpointResponse(
                "A replay of an earlier upload with this key.", _UPLOAD, ("Location",)
            ),
            201: EndpointResponse(
                "The file is durable and waits for its job.", _UPLOAD, ("Location",)
            ),
        },
        error_statuses=(408, 409, 413, 415, 422, 429),
        parameters=(
            IDEMPOTENCY_KEY,
            Parameter("name", "The file's name; a form has its own.", {"type": "string"}),
        ),
        body=EndpointBody(
            "The raw file, of any type, or a form with the file as its only part.",
            {
                ANY: _BYTES,
                FORM: {
                    "type": "object",
                    "properties": {"file": _BYTES},
                    "required": ["file"],
                    "additionalProperties": False,
                },
            },
            required=False,
        ),
        description=(
            'Submit the job with `{"upload": "<id>"}` as the input member that is a file. The '
            "first job that names the upload owns it. Without one, it is deleted at `expires_at`."
        ),
        kind=KindRule.DECLARED,
    ),
    Endpoint(
        "GET",
        "/v1/uploads/{upload_id}",
        get_upload,
        "getUpload",
        "Get an upload that no job has used",
        "uploads",
        {200: EndpointResponse("The upload.", _UPLOAD)},
        error_statuses=(404,),
        kind=KindRule.DECLARED,
    ),
    Endpoint(
        "DELETE",
        "/v1/uploads/{upload_id}",
        delete_upload,
        "deleteUpload",
        "Delete an upload that no job has used",
        "uploads",
        {204: EndpointResponse("The upload is deleted.", {})},
        error_statuses=(404,),
        kind=KindRule.DECLARED,
    ),
    Endpoint(
        "POST",
        "/v1/signed-uploads",
        sign_upload,
        "signUpload",
        "Get a signed URL of the blob store to upload to",
        "uploads",
        {
            201: EndpointResponse(
                "PUT the file to the URL, then complete the upload.", as_json(ref("SignedUpload"))
            )
        },
        error_statuses=(408, 409, 413, 415, 422, 429),
        body=EndpointBody("The file.", as_json(ref("SignedRequest"))),
        kind=KindRule.DECLARED,
    ),
    Endpoint(
        "POST",
        "/v1/uploads/{upload_id}/complete",
        complete_upload,
        "completeUpload",
        "Complete a signed upload",
        "uploads",
        {200: EndpointResponse("The file was verified and waits for its job.", _UPLOAD)},
        error_statuses=(404, 409, 422),
        description=(
            "409 while nothing was written to the URL. If the size or SHA-256 differs from the "
            "declared one, the file is deleted (422) and can be written again."
        ),
        kind=KindRule.DECLARED,
    ),
)
