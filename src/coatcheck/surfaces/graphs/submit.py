"""Handing an archive in under a key, and finding the job of one that was.

*Whose key it is.* A key stands for one job of one tenant and API key; without API keys, of
whoever there is. The job's public id is made from both, and the store takes a public id once: so
the key is looked up by reading one job, and of any number of submissions, wherever they come in,
one makes it. It stands for that job as long as the job is kept, and is free again after that.

*Who comes first wins.* Everybody whose key is not taken yet uploads; whoever finds it taken when
they are through gives their own archive up and gets the winner's job. What was sent is not
compared.

*What a crash leaves* is an upload that no job takes over. It is as short-lived as any archive.
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
    """Return the public id of the job that a caller's key stands for."""
    said = json.dumps([caller_of(request).key_id, key])
    return f"graph_{hashlib.sha256(said.encode()).hexdigest()[:32]}"


async def find(request: Request, public_id: str) -> Job | None:
    """Return the job that a key stands for; None where it stands for none."""
    engine: Engine = request.app.state.engine
    try:
        return await engine.get_without_result(public_id, tenant_of(request))
    except NotFound:
        return None


async def submit(
    request: Request, public_id: str, graph: GraphKind, kept_ms: int
) -> tuple[Job, bool]:
    """Take an archive in and make a job of it; return the job, and whether it is another's."""
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
    """Return the archive's name and its bytes as they come; raises where there is none."""
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
    """Remove an archive, unless a job has it after all; what fails is left to the sweep."""
    with contextlib.suppress(NotFound, StoreError):
        await engine.uploads.delete(upload_id, tenant)
