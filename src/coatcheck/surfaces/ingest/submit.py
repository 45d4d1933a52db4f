"""`POST /v1/ingest`: read documents from a form with files or from JSON, and submit their jobs.

The files of a form are stored as uploads while they arrive. Fields may come before or after them.
If anything fails before a job owns an upload, the upload is deleted; if even that fails, it
expires.

A small plain-text file does not become an upload. Its text goes into the job's input unchanged: one
write instead of three and a file, and nothing to fetch later.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import LABEL_VALUE_LENGTH, Submission
from coatcheck.engine.submit.submitter import Submitted
from coatcheck.errors import InvalidPayload, NotFound, StoreError, TooLarge
from coatcheck.http.auth.caller import tenant_of
from coatcheck.http.files.uploads import FORM
from coatcheck.http.jobs.card_view import TITLE
from coatcheck.http.jobs.handlers import job_response
from coatcheck.http.request.body import (
    body_too_large,
    check_declared_length,
    media_type_of,
    parse_json,
    read_json,
    stream_body,
)
from coatcheck.http.request.idempotency import REPLAYED, read_idempotency_key
from coatcheck.http.request.models import RequestModel, validate_model
from coatcheck.http.request.multipart import FORM_OVERHEAD, FormField, FormFile, read_parts
from coatcheck.http.request.prefer import read_preference
from coatcheck.http.surfaces.submit import bind_submission, submit_idempotent
from coatcheck.model.artifact import check_content_type
from coatcheck.model.kind import pointer
from coatcheck.model.upload import check_file_name
from coatcheck.surfaces.ingest.constants import (
    BATCH_KIND,
    COLLECTION_LABEL,
    DEFAULT_COLLECTION,
    FROM_URL,
    KIND,
    MAX_FILES,
    SOURCE_LABEL,
    SURFACE,
)
from coatcheck.surfaces.ingest.document import DocumentRequest

log = logging.getLogger(__name__)

FIELDS = ("collection", "metadata", "name")
# A text up to this many bytes is part of its job's input, which then still fits inline. The second
# limit is for all texts of one form, which are held in memory until the whole form has arrived.
MAX_INLINE_TEXT, MAX_INLINE_TOTAL = 32 * 1024, 1024 * 1024


class UploadedDocument(NamedTuple):
    """A file of a form: the name of its document, its media type, and where its bytes are."""

    name: str
    media_type: str
    size: int
    sha256: str
    source: dict[str, Any]  # the source field of a DocumentRequest


class IngestRequest(RequestModel):
    """A document given as JSON: a URL or a text."""

    collection: str = DEFAULT_COLLECTION
    name: str | None = None
    url: str | None = None
    text: str | None = None
    metadata: dict[str, str] = {}  # noqa: RUF012 - pydantic copies it


@dataclass
class IntakeResult:
    """The requested documents, the uploads that no job owns yet, and the idempotency body."""

    documents: list[DocumentRequest] = field(default_factory=list)
    uploads: list[str] = field(default_factory=list)
    texts: int = 0  # bytes held in memory
    body: Any = None


@asynccontextmanager
async def read_intake(request: Request) -> AsyncIterator[IntakeResult]:
    """Read a request; raise the matching 4xx error.

    Uploads that no job owns at the end of the block are deleted.
    """
    intake = IntakeResult()
    try:
        if media_type_of(request) == FORM:
            await _read_form(request, intake)
        else:
            await _read_json(request, intake)
        yield intake
    finally:
        engine: Engine = request.app.state.engine
        if intake.uploads:  # even if the client disconnects now
            await asyncio.shield(_delete_uploads(engine, intake.uploads, tenant_of(request)))


async def _delete_uploads(engine: Engine, uploads: Sequence[str], tenant: str) -> None:
    """Delete uploads that no job owns; the sweep deletes those for which this fails."""
    for upload in uploads:
        with contextlib.suppress(NotFound, StoreError):
            await engine.uploads.delete(upload, tenant)


async def _read_json(request: Request, intake: IntakeResult) -> None:
    intake.body = await read_json(request)
    wanted = validate_model(intake.body, IngestRequest)
    values = wanted.model_dump(exclude={"name"})
    intake.documents = [_document({**values, "name": wanted.name or _name_of(wanted)})]
    if wanted.url is not None:
        engine: Engine = request.app.state.engine
        await engine.egress.check_resolved(wanted.url)


def _name_of(wanted: IngestRequest) -> str:
    """Return a name for an unnamed document; equal documents get equal names."""
    if wanted.url is not None:
        return wanted.url
    return f"text-{hashlib.sha256((wanted.text or '').encode()).hexdigest()[:16]}"


async def _read_form(request: Request, intake: IntakeResult) -> None:
    engine: Engine = request.app.state.engine
    left = engine.uploads.limit
    check_declared_length(request, left + FORM_OVERHEAD)
    files: list[UploadedDocument] = []
    fields: dict[str, str] = {}
    async for part in read_parts(request.headers["content-type"], stream_body(request)):
        match part:
            case FormField(name, value):
                if name not in FIELDS or name in fields:
                    allowed = ", ".join(FIELDS)
                    raise HTTPException(400, f"a form may have files, and each of {allowed} once")
                fields[name] = value
            case FormFile():
                if len(files) == MAX_FILES:
                    raise HTTPException(400, f"a form may have at most {MAX_FILES} files")
                files.append(await _receive(request, part, left, intake))
                left -= files[-1].size
    if not files:
        raise HTTPException(400, "the form has no file: give the part a file name")
    _make_documents(intake, files, fields)


async def _receive(
    request: Request, file: FormFile, limit: int, intake: IntakeResult
) -> UploadedDocument:
    engine: Engine = request.app.state.engine
    name = _clean(file.name or "")
    beginning = bytearray()
    async for piece in file.pieces:
        beginning += piece
        if len(beginning) > min(MAX_INLINE_TEXT, limit):
            break
    else:
        text = small_text(beginning)
        if text is not None and intake.texts + len(beginning) <= MAX_INLINE_TOTAL:
            intake.texts += len(beginning)
            media_type = check_content_type(file.content_type, check_file_name(file.name) or "")
            digest = hashlib.sha256(beginning).hexdigest()
            return UploadedDocument(name, media_type, len(beginning), digest, {"text": text})
    pieces = _prepend(bytes(beginning), file.pieces)
    try:
        received = await engine.uploads.receive(
            pieces, file.name, file.content_type, tenant=tenant_of(request), limit=limit
        )
    except TooLarge:
        raise body_too_large(engine.uploads.limit) from None
    upload = received.upload
    intake.uploads.append(upload.id)
    source = {"file": {"upload": upload.id}}
    return UploadedDocument(name, upload.content_type, upload.size, upload.sha256, source)


def small_text(content: bytes | bytearray) -> str | None:
    """Return a file's text if it is small and encodes back to exactly these bytes."""
    if len(content) > MAX_INLINE_TEXT:
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return text if text and "\0" not in text else None


async def _prepend(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if first:
        yield first
    async for piece in rest:
        yield piece


def _make_documents(
    intake: IntakeResult, files: list[UploadedDocument], fields: dict[str, str]
) -> None:
    if "name" in fields:
        if len(files) > 1:
            raise HTTPException(400, "the field name is only for a form with one file")
        files = [files[0]._replace(name=fields["name"])]
    shared = {
        "collection": fields.get("collection", DEFAULT_COLLECTION),
        "metadata": parse_json(fields.get("metadata", "{}").encode()),
    }
    names = [file.name for file in files]
    if len(set(names)) < len(names):
        raise HTTPException(
            400, "two files of the form have the same name: one would replace the other"
        )
    intake.documents = [
        _document({**shared, "name": file.name, "media_type": file.media_type, **file.source})
        for file in files
    ]
    listed = [[file.name, file.sha256, file.media_type] for file in files]
    intake.body = {**shared, "files": listed}


def _clean(name: str) -> str:
    """Return a file name as a document name: a path is kept, with forward slashes."""
    parts = name.replace("\\", "/").split("/")
    return "/".join(part for part in parts if part not in ("", "."))


def _document(values: dict[str, Any]) -> DocumentRequest:
    try:
        return DocumentRequest.model_validate(values)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        problems = [(pointer(item["loc"]), item["msg"]) for item in found]
        message = "; ".join(f"{path or '/'}: {detail}" for path, detail in problems[:3])
        raise InvalidPayload(message, problems) from None


async def ingest(request: Request) -> Response:
    """Submit documents: one as a job, several as a job each and one that waits for them."""
    engine: Engine = request.app.state.engine
    preference = read_preference(request)
    async with read_intake(request) as intake:
        submitted = await _submit(request, intake)
        if not submitted.replayed:
            intake.uploads.clear()
    [job] = submitted.jobs
    fields = {"job_id": job.id, "documents": len(intake.documents), "replayed": submitted.replayed}
    log.info("documents submitted", extra=fields)
    if preference.wait_s and not job.state.is_terminal:
        job = await engine.wait_for_job(job, preference.wait_s)
    headers = {"Location": f"/v1/jobs/{job.id}", **preference.headers}
    if submitted.replayed:
        headers[REPLAYED] = "true"
    return job_response(engine, job, 200 if job.state.is_terminal else 202, headers)


async def _submit(request: Request, intake: IntakeResult) -> Submitted:
    submissions = [_submission(each) for each in intake.documents]
    if len(submissions) == 1:
        return await submit_idempotent(request, submissions[0], intake.body)
    engine: Engine = request.app.state.engine
    children = [bind_submission(request, each) for each in submissions]

    def parent_of(ids: Sequence[str]) -> Submission:
        # A key that may submit one document may submit several.
        return children[0]._replace(
            kind=BATCH_KIND,
            input=json.dumps({"jobs": list(ids)}),
            labels={
                TITLE: f"{len(ids)} documents",
                COLLECTION_LABEL: intake.documents[0].collection,
            },
        )

    return await engine.submit_family(
        children, parent_of, read_idempotency_key(request, intake.body)
    )


def _submission(document: DocumentRequest) -> Submission:
    source = FROM_URL if document.url is not None else "text" if document.file is None else "file"
    return Submission(
        KIND,
        document.model_dump_json(exclude_none=True),
        surface=SURFACE,
        labels={
            TITLE: document.name[:LABEL_VALUE_LENGTH],
            COLLECTION_LABEL: document.collection,
            SOURCE_LABEL: source,
        },
    )
