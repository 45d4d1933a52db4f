"""The part of a store that knows of files: which blobs there are, whose they are, until when.

The bytes themselves are the blob store's (`coatcheck.blobs`), or in the row of an artifact that is
small. A blob is noted before its bytes are written, and named by whoever needs it afterwards; what
nobody names in time is removed.
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
        """Note a blob before its bytes are written. Unless a job, a result or an artifact that is
        written names it before `remove_at`, it may be removed from then on.

        Each of those takes its blob over in its own transaction, and raises BlobGone where that is
        being removed.
        """
        ...

    async def keep_artifact(
        self, lease: Lease, artifact: Artifact, content: str | None = None
    ) -> bool:
        """Name a file of a running job, in place of the one that had the name; False when the
        lease is stale. Raises Conflict where the job has too many. `content` is that of a file
        which is kept in its row, in base 64.
        """
        ...

    async def artifact_content(self, tenant: str, job_id: str, name: str) -> str | None:
        """Read a file that is kept in its row; None where there is none."""
        ...

    async def unneeded_blobs(self, now: int, limit: int) -> list[BlobName]:
        """List blobs whose bytes are to be removed: of jobs that are deleted, replaced, or never
        named in time. They cannot be named any more.
        """
        ...

    async def forget_blobs(self, blobs: Sequence[BlobName]) -> None:
        """Drop what is known of blobs whose bytes are gone; those that a job keeps stay."""
        ...

    # --- uploads

    async def put_upload(self, tenant: str, upload: StoredUpload) -> None:
        """Make a file known whose bytes are written, as a blob that was noted for nobody; they are
        kept until its time has passed, or with the job that takes it over. Raises BlobGone.
        """
        ...

    async def get_upload(
        self, tenant: str, upload_id: str, job_id: str = NOBODY
    ) -> StoredUpload | None:
        """Read what is known of a job's file, or of one that no job has taken over."""
        ...

    async def uploads_of(self, tenant: str, job_id: str) -> list[StoredUpload]:
        """List the files of a job's input."""
        ...

    async def delete_upload(self, tenant: str, upload_id: str) -> bool:
        """Give a file up that no job has taken over; False when there is none."""
        ...
