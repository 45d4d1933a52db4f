"""From what somebody sends to the documents that are asked for: a form with files, or JSON.

The files of a form are written away as they come, as uploads; fields may stand before or behind
them. Until a job has taken an upload over it is given up again whenever something is wrong, and
expires where not even that was possible.

A small file that is plain text is no upload: it goes into the job's own input, byte by byte the
same. That is one write where there were three and a file, and nothing has to be fetched again.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request

from coatcheck.engine.engine import Engine
from coatcheck.errors import InvalidPayload, TooLarge
from coatcheck.http.auth.caller import tenant_of
from coatcheck.http.files.uploads import FORM
from coatcheck.http.request.body import (
    body_too_large,
    check_declared_length,
    media_type_of,
    parse_json,
    read_json,
    stream_body,
)
from coatcheck.http.request.models import RequestModel, validate_model
from coatcheck.http.request.multipart import FORM_OVERHEAD, FormField, FormFile, read_parts
from coatcheck.model.artifact import check_content_type
from coatcheck.model.kind import pointer
from coatcheck.model.upload import check_file_name
from coatcheck.surfaces.ingest.constants import DEFAULT_COLLECTION, MOST_FILES
from coatcheck.surfaces.ingest.document import DocumentRequest
from coatcheck.surfaces.ingest.giving_up import give_up

FIELDS = ("collection", "metadata", "name")
# A text of so many bytes is part of its job's input, which stays small enough for its row. Of a
# form with many, so many bytes are: they are held in memory until the whole form is there.
SMALL, SMALL_IN_ALL = 32 * 1024, 1024 * 1024


class UploadedDocument(NamedTuple):
    """A file of a form: the name of its document, what it is, and where its bytes are."""

    name: str
    media_type: str
    size: int
    sha256: str
    source: dict[str, Any]  # as a document says it


class IngestRequest(RequestModel):
    """A document that is no file: where it is, or what it says."""

    collection: str = DEFAULT_COLLECTION
    name: str | None = None
    url: str | None = None
    text: str | None = None
    metadata: dict[str, str] = {}  # noqa: RUF012 - pydantic copies it


@dataclass
class IntakeResult:
    """Documents that are asked for, the uploads that are still nobody's, and what has to be the
    same for another request to be this one again.
    """

    documents: list[DocumentRequest] = field(default_factory=list)
    uploads: list[str] = field(default_factory=list)
    texts: int = 0  # how many bytes of them are held
    body: Any = None


@asynccontextmanager
async def taken_in(request: Request) -> AsyncIterator[IntakeResult]:
    """Read what was sent; raises the 4xx that fits. The uploads that no job has by the end of the
    block are given up.
    """
    taken = IntakeResult()
    try:
        if media_type_of(request) == FORM:
            await _read_form(request, taken)
        else:
            await _read_json(request, taken)
        yield taken
    finally:
        engine: Engine = request.app.state.engine
        await give_up(engine, taken.uploads, tenant_of(request))


async def _read_json(request: Request, taken: IntakeResult) -> None:
    taken.body = await read_json(request)
    asked = validate_model(taken.body, IngestRequest)
    values = asked.model_dump(exclude={"name"})
    taken.documents = [_document({**values, "name": asked.name or _name_of(asked)})]
    if asked.url is not None:
        engine: Engine = request.app.state.engine
        await engine.egress.check_resolved(asked.url)


def _name_of(asked: IngestRequest) -> str:
    """Return the name of a document that was given none: the same for the same."""
    if asked.url is not None:
        return asked.url
    return f"text-{hashlib.sha256((asked.text or '').encode()).hexdigest()[:16]}"


async def _read_form(request: Request, taken: IntakeResult) -> None:
    engine: Engine = request.app.state.engine
    left = engine.uploads.limit
    check_declared_length(request, left + FORM_OVERHEAD)
    files: list[UploadedDocument] = []
    fields: dict[str, str] = {}
    async for part in read_parts(request.headers["content-type"], stream_body(request)):
        match part:
            case FormField(name, value):
                if name not in FIELDS or name in fields:
                    raise HTTPException(400, f"a form has {', '.join(FIELDS)} once, and files")
                fields[name] = value
            case FormFile():
                if len(files) == MOST_FILES:
                    raise HTTPException(400, f"a form has at most {MOST_FILES} files")
                files.append(await _receive(request, part, left, taken))
                left -= files[-1].size
    if not files:
        raise HTTPException(400, "the form has no file in it: give its part a file name")
    _make_documents(taken, files, fields)


async def _receive(
    request: Request, file: FormFile, limit: int, taken: IntakeResult
) -> UploadedDocument:
    engine: Engine = request.app.state.engine
    name = _clean(file.name or "")
    beginning = bytearray()
    async for piece in file.pieces:
        beginning += piece
        if len(beginning) > min(SMALL, limit):
            break
    else:
        text = small_text(beginning)
        if text is not None and taken.texts + len(beginning) <= SMALL_IN_ALL:
            taken.texts += len(beginning)
            media_type = check_content_type(file.content_type, check_file_name(file.name) or "")
            digest = hashlib.sha256(beginning).hexdigest()
            return UploadedDocument(name, media_type, len(beginning), digest, {"text": text})
    pieces = _from_the_beginning(bytes(beginning), file.pieces)
    try:
        received = await engine.uploads.receive(
            pieces, file.name, file.content_type, tenant=tenant_of(request), limit=limit
        )
    except TooLarge:
        raise body_too_large(engine.uploads.limit) from None
    upload = received.upload
    taken.uploads.append(upload.id)
    source = {"file": {"upload": upload.id}}
    return UploadedDocument(name, upload.content_type, upload.size, upload.sha256, source)


def small_text(content: bytes | bytearray) -> str | None:
    """Return what a file says, if it is small and a text that these very bytes can be made of."""
    if len(content) > SMALL:
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return text if text and "\0" not in text else None


async def _from_the_beginning(read: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if read:
        yield read
    async for piece in rest:
        yield piece


def _make_documents(
    taken: IntakeResult, files: list[UploadedDocument], fields: dict[str, str]
) -> None:
    if "name" in fields:
        if len(files) > 1:
            raise HTTPException(400, "the field name is for a form with one file")
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
    taken.documents = [
        _document({**shared, "name": file.name, "media_type": file.media_type, **file.source})
        for file in files
    ]
    told = [[file.name, file.sha256, file.media_type] for file in files]
    taken.body = {**shared, "files": told}


def _clean(name: str) -> str:
    """Return a file's name as the name of its document: a path is kept, whatever its slashes."""
    parts = name.replace("\\", "/").split("/")
    return "/".join(part for part in parts if part not in ("", "."))


def _document(values: dict[str, Any]) -> DocumentRequest:
    try:
        return DocumentRequest.model_validate(values)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        problems = [(pointer(item["loc"]), item["msg"]) for item in found]
        words = "; ".join(f"{place or '/'}: {detail}" for place, detail in problems[:3])
        raise InvalidPayload(words, problems) from None
