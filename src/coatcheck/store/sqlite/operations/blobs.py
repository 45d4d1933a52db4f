"""Ownership of blobs, as part of the transactions that refer to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from coatcheck.errors import BlobGone, Conflict, UploadGone
from coatcheck.model.artifact import MOST_OF_A_JOB, TOO_MANY, Artifact
from coatcheck.model.job import JobInsert, Lease
from coatcheck.model.payload import NOBODY, BlobName, blobs_in
from coatcheck.model.upload import StoredUpload
from coatcheck.store.base import Topic
from coatcheck.store.sqlite.database.statements import SQL
from coatcheck.store.sqlite.database.transaction import Transaction


def reserve(tx: Transaction, blob: BlobName, remove_at: int) -> None:
    """Record a blob whose bytes are about to be written."""
    tx.execute(SQL.reserve_blob, (*blob, remove_at))


def adopt(tx: Transaction, blobs: Iterable[BlobName]) -> None:
    """Keep blobs as long as their job, from the commit of this transaction on."""
    for blob in blobs:
        tx.execute(SQL.adopt_blob, blob)
        if not tx.changed():
            raise BlobGone(f"blob {blob.key} was removed before anybody named it")


def keep_artifact(tx: Transaction, lease: Lease, artifact: Artifact, content: str | None) -> None:
    """Record an artifact in place of the one with its name. The caller has checked the lease."""
    job = (lease.tenant, lease.job_id)
    if artifact.row is None:
        adopt(tx, [BlobName(*job, artifact.key)])
    replaced = tx.one(SQL.artifact_key, (*job, artifact.name))
    if replaced is None:
        if tx.one(SQL.count_artifacts, job)[0] >= MOST_OF_A_JOB:
            raise Conflict(TOO_MANY)
    elif replaced[0] != artifact.key:
        tx.execute(SQL.doom_blob, (*job, replaced[0]))
    tx.execute(SQL.put_artifact, (*job, *artifact, content))
    tx.topics.add(Topic.CHANGES)


def take_copies(tx: Transaction, source: str, job: JobInsert, copies: Mapping[str, str]) -> None:
    """Replace references of a fork to its source's blobs with references to its own copies."""
    key = (job.tenant, job.id)
    for pair in copies.items():
        tx.execute(SQL.take_copied_result, (*key, *pair))
        tx.execute(SQL.take_copied_message, (*key, *pair))
    adopt(tx, blobs_in((*key, copy) for copy in copies.values()))
    if tx.one(SQL.names_blobs_of, (*key, source))[0]:
        raise Conflict(f"job {source} goes on while it is forked; try again")


def put_upload(tx: Transaction, tenant: str, upload: StoredUpload) -> None:
    """Record an upload that no job has taken over."""
    tx.execute(SQL.hold_blob, (tenant, NOBODY, upload.key, upload.expires_at))
    if not tx.changed():
        raise BlobGone(f"blob {upload.key} was removed before anybody named it")
    tx.execute(SQL.insert_upload, (tenant, NOBODY, *upload))


def adopt_uploads(tx: Transaction, job: JobInsert) -> None:
    """Assign the uploads that a job names to that job."""
    for upload in job.uploads:
        tx.execute(SQL.adopt_upload, (job.id, job.tenant, upload.key))
        if not tx.changed():
            raise UploadGone(f"upload {upload.id} has expired, or is another job's")
        tx.execute(SQL.delete_upload, (job.tenant, NOBODY, upload.id))
        tx.execute(SQL.insert_upload, (job.tenant, job.id, *upload))


def delete_upload(tx: Transaction, tenant: str, upload_id: str) -> bool:
    """Delete an upload that no job has taken over."""
    row = tx.one(SQL.upload, (tenant, NOBODY, upload_id))
    if row is None:
        return False
    upload = StoredUpload(*row)
    tx.execute(SQL.doom_blob, (tenant, NOBODY, upload.key))
    tx.execute(SQL.delete_upload, (tenant, NOBODY, upload_id))
    return True


def remove(tx: Transaction, tenant: str, job_id: str) -> tuple[int, int, int]:
    """Release the files and blobs of a deleted job. Returns the number of artifacts, of uploads and
    of blobs.
    """
    tx.execute(SQL.delete_artifacts, (tenant, job_id))
    artifacts = tx.changed()
    tx.execute(SQL.delete_uploads, (tenant, job_id))
    uploads = tx.changed()
    tx.execute(SQL.doom_blobs, (tenant, job_id))
    return artifacts, uploads, tx.changed()


def take_unneeded(tx: Transaction, now: int, limit: int) -> list[BlobName]:
    """Mark blobs for removal and return them. No transaction can adopt them from now on."""
    found = [BlobName(*row) for row in tx.all(SQL.blobs_to_remove, (now, limit))]
    for blob in found:
        tx.execute(SQL.doom_blob, blob)
    return found


def forget(tx: Transaction, blobs: Sequence[BlobName]) -> None:
    """Delete the rows of blobs whose bytes are gone."""
    for blob in blobs:
        tx.execute(SQL.forget_blob, blob)
        if tx.changed():
            tx.execute(SQL.delete_upload_by_key, blob)
