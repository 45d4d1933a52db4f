"""The files part of a store: which blobs exist, who owns them, and until when.

The bytes are in the blob store (`coatcheck.blobs`), or in the row of a small artifact. A blob is
reserved before its bytes are written, and its owner refers to it afterwards. A blob that nothing
refers to in time is removed, in two phases: `start_blob_removal` marks it so that nothing can refer
to it any more, the caller deletes the bytes, and `finish_blob_removal` deletes the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from coatcheck.model.artifact import Artifact
from coatcheck.model.job import Lease
from coatcheck.model.payload import NOBODY, BlobName
from coatcheck.model.upload import StoredUpload


class FileStore(Protocol):
    """The verbs on blobs, artifacts and uploads."""

    async def reserve_blob(self, blob: BlobName, remove_at: int) -> None:
        """Reserve a blob before its bytes are written.

        The blob may be removed from `remove_at` on unless a job, a result or an artifact refers to
        it by then. Each of those takes its blob over in its own transaction, and raises BlobGone if
        the blob is being removed.
        """
        ...

    async def record_artifact(
        self, lease: Lease, artifact: Artifact, content: str | None = None
    ) -> bool:
        """Record an artifact of a running job; it replaces the one with the same name.

        `content` is the base64 content of a small file, stored in the row. Returns False if the
        lease is stale. Raises Conflict if the job has too many artifacts.
        """
        ...

    async def get_artifact_content(self, tenant: str, job_id: str, name: str) -> str | None:
        """Read the content of an artifact that is stored in its row."""
        ...

    async def start_blob_removal(self, now: int, limit: int) -> list[BlobName]:
        """Mark unreferenced blobs as being removed and return them.

        Those are the blobs of deleted jobs, replaced ones, and ones that nothing referred to in
        time.
        """
        ...

    async def finish_blob_removal(self, blobs: Sequence[BlobName]) -> None:
        """Delete the rows of blobs whose bytes are gone, except those that a job owns."""
        ...

    # --- uploads

    async def put_upload(self, tenant: str, upload: StoredUpload) -> None:
        """Record an upload whose bytes are written to a reserved blob. Raises BlobGone.

        The upload is kept until it expires, or with the job that takes it over.
        """
        ...

    async def get_upload(
        self, tenant: str, upload_id: str, job_id: str = NOBODY
    ) -> StoredUpload | None:
        """Read an upload of a job, or one that no job has taken over."""
        ...

    async def list_uploads(self, tenant: str, job_id: str) -> list[StoredUpload]:
        """List the uploads of a job."""
        ...

    async def delete_upload(self, tenant: str, upload_id: str) -> bool:
        """Delete an upload that no job has taken over. Returns False if there is none."""
        ...
