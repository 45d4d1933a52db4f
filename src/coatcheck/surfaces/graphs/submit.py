"""Submit an archive under a key, and find the job of a key.

*Scope of a key.* A key identifies one job of one tenant and API key; without API keys, one job of
all callers. The job's public id derives from the API key's id and the key, and the store accepts a
public id once. So a key is looked up by reading one job, and of any number of submissions, at any
server, one creates the job. The key identifies that job until the job is deleted, and is free again
after that.

*The first submission wins.* A caller whose key is free uploads its archive. If the key is taken
once the upload is complete, that archive is deleted, and the caller gets the winner's job. The
archives are not compared.

*A crash* leaves an upload that no job takes over. The upload expires as early as any archive.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
from collections.abc import AsyncIterator

from starlette.exceptions import HTTPException
from starlette.requests import Request

from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.errors import IdTaken, NotFound, StoreError, TooLarge
from coatcheck.http.auth.caller import caller_of, tenant_of
from coatcheck.http.files.uploads import FORM
from coatcheck.http.request.body import (
    body_too_large,
    check_declared_length,
    media_type_of,
    stream_body,
)
from coatcheck.http.request.multipart import FORM_OVERHEAD, read_file
from coatcheck.http.surfaces.submit import bind_submission
from coatcheck.model.job import Job
from coatcheck.model.upload import Upload
from coatcheck.surfaces.graphs.constants import KIND, SURFACE, GraphKind
from coatcheck.surfaces.graphs.job import GraphRequest

log = logging.getLogger(__name__)

ZIPS = frozenset({"application/zip", "application/x-zip-compressed", "application/octet-stream"})
NOT_A_BODY = "there is no job under this key; send the archive to make one"


def id_of(request: Request, key: str) -> str:
    """Return the public id of the job for a caller's key."""
    said = json.dumps([caller_of(request).key_id, key])
    return f"graph_{hashlib.sha256(said.encode()).hexdigest()[:32]}"


async def find(request: Request, public_id: str) -> Job | None:
    """Return the job of a public id, or None if there is none."""
    engine: Engine = request.app.state.engine
    try:
        return await engine.get_without_result(public_id, tenant_of(request))
    except NotFound:
        return None


async def submit(
    request: Request, public_id: str, graph: GraphKind, kept_ms: int
) -> tuple[Job, bool]:
    """Upload an archive and submit a job for it. Also returns whether another job won the key."""
    engine: Engine = request.app.state.engine
    tenant = tenant_of(request)
    name, pieces = await _open(request, engine.uploads.limit)
    try:
        taken = await engine.uploads.receive(
            pieces, name, "application/zip", tenant=tenant, kept_ms=kept_ms
        )
    except TooLarge:
        raise body_too_large(engine.uploads.limit) from None
    upload = taken.upload
    try:
        if not upload.size:
            raise HTTPException(400, "the archive is empty")
        asked = GraphRequest(archive=Upload(upload=upload.id), graph=graph)
        submission = Submission(KIND, asked.model_dump_json(), surface=SURFACE, public_id=public_id)
        job = await engine.submit(bind_submission(request, submission))
    except IdTaken:
        await _give_up(engine, upload.id, tenant)
        return await engine.get_without_result(public_id, tenant), True
    except BaseException:
        await asyncio.shield(_give_up(engine, upload.id, tenant))
        raise
    fields = {"job_id": job.id, "graph": str(graph), "bytes": upload.size, "sha256": upload.sha256}
    log.info("archive submitted", extra=fields)
    return job, False


async def _open(request: Request, limit: int) -> tuple[str | None, AsyncIterator[bytes]]:
    """Return the archive's name and a stream of its bytes. Raises an error if there is none."""
    media_type = media_type_of(request)
    is_form = media_type == FORM
    if media_type and not is_form and media_type not in ZIPS:
        raise HTTPException(415, f"send the archive as {FORM}, or as it is as application/zip")
    check_declared_length(request, limit + (FORM_OVERHEAD if is_form else 0))
    body = stream_body(request)
    first = await anext(body, b"")
    if not first:
        raise NotFound(NOT_A_BODY)
    whole = _with_first(first, body)
    if not is_form:
        return None, whole
    file = await read_file(request.headers["content-type"], whole)
    return file.name, file.pieces


async def _with_first(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


async def _give_up(engine: Engine, upload_id: str, tenant: str) -> None:
    """Delete an archive unless a job has taken it over. On failure it is left to the sweep."""
    with contextlib.suppress(NotFound, StoreError):
        await engine.uploads.delete(upload_id, tenant)
