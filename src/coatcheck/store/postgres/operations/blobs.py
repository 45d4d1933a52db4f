"""Ownership of blobs, as part of the transactions that refer to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coatcheck.errors import BlobGone, Conflict, UploadGone
from coatcheck.model.artifact import MOST_OF_A_JOB, TOO_MANY, Artifact
from coatcheck.model.job import JobInsert
from coatcheck.model.payload import NOBODY, BlobName, blobs_in
from coatcheck.model.upload import StoredUpload
from coatcheck.store.postgres.database.statements import Statements


async def adopt(db: Any, sql: Statements, blobs: Sequence[BlobName]) -> None:
    """Keep blobs as long as their job, from the commit of this transaction on."""
    if not blobs:
        return
    # Lock in the same order everywhere, so that transactions that share blobs cannot deadlock.
    named = sorted(set(blobs))
    kept = await db.execute(sql.adopt_blobs, *map(list, zip(*named, strict=True)))
    if kept != f"UPDATE {len(named)}":
        raise BlobGone("a blob was removed before anybody named it")


async def keep_artifact(
    db: Any, sql: Statements, tenant: str, job_id: str, new: Artifact, content: str | None
) -> None:
    """Record an artifact of a locked job in place of the one with its name."""
    if new.row is None:
        await adopt(db, sql, [BlobName(tenant, job_id, new.key)])
    replaced = await db.fetchval(sql.artifact_key, tenant, job_id, new.name)
    if replaced is None:
        if await db.fetchval(sql.count_artifacts, tenant, job_id) >= MOST_OF_A_JOB:
            raise Conflict(TOO_MANY)
    elif replaced != new.key:
        await db.execute(sql.doom_blob, tenant, job_id, replaced)
    await db.execute(sql.put_artifact, tenant, job_id, *new, content)


async def take_copies(
    db: Any, sql: Statements, source: str, job: JobInsert, copies: Mapping[str, str]
) -> None:
    """Replace references of a fork to its source's blobs with references to its own copies."""
    key = (job.tenant, job.id)
    if copies:
        pairs = (list(copies), list(copies.values()))
        await db.execute(sql.take_copied_results, *key, *pairs)
        await db.execute(sql.take_copied_messages, *key, *pairs)
        await adopt(db, sql, blobs_in((*key, copy) for copy in copies.values()))
    if await db.fetchval(sql.names_blobs_of, *key, source):
        raise Conflict(f"job {source} goes on while it is forked; try again")


async def put_upload(db: Any, sql: Statements, tenant: str, upload: StoredUpload) -> None:
    """Record an upload that no job has taken over."""
    held = await db.execute(sql.hold_blob, tenant, NOBODY, upload.key, upload.expires_at)
    if held != "UPDATE 1":
        raise BlobGone(f"blob {upload.key} was removed before anybody named it")
    await db.execute(sql.insert_uploads, *([value] for value in (tenant, NOBODY, *upload)))


async def adopt_uploads(db: Any, sql: Statements, new: Sequence[JobInsert]) -> None:
    """Assign the uploads that jobs name to those jobs."""
    named = sorted((job.tenant, job.id, upload) for job in new for upload in job.uploads)
    if not named:
        return
    keys = [(tenant, job_id, upload.key) for tenant, job_id, upload in named]
    adopted = await db.execute(sql.adopt_uploads, *map(list, zip(*keys, strict=True)))
    if adopted != f"UPDATE {len(named)}":
        raise UploadGone("an upload has expired, or is another job's")
    free = [(tenant, NOBODY, upload.id) for tenant, _, upload in named]
    await db.execute(sql.delete_named_uploads, *map(list, zip(*free, strict=True)))
    rows = [(tenant, job_id, *upload) for tenant, job_id, upload in named]
    await db.execute(sql.insert_uploads, *map(list, zip(*rows, strict=True)))


async def delete_upload(db: Any, sql: Statements, tenant: str, upload_id: str) -> bool:
    """Delete an upload that no job has taken over."""
    upload = await db.fetchrow(sql.upload, tenant, NOBODY, upload_id)
    # Lock the blob before its upload, in the order of `adopt_uploads`, to avoid deadlocks.
    if (
        upload is None
        or await db.execute(sql.doom_blob, tenant, NOBODY, upload["key"]) != "UPDATE 1"
    ):
        return False
    await db.execute(sql.delete_named_uploads, [tenant], [NOBODY], [upload_id])
    return True


async def remove(db: Any, sql: Statements, keys: Sequence[Any]) -> tuple[int, int, int]:
    """Release the files and blobs of deleted jobs. Returns the number of artifacts, of uploads and
    of blobs.
    """
    removed = [
        await db.execute(statement, *keys)
        for statement in (sql.delete_artifacts, sql.delete_uploads, sql.doom_blobs)
    ]
    artifacts, uploads, blobs = (int(told.rpartition(" ")[2]) for told in removed)
    return artifacts, uploads, blobs
