"""The files part of the SQLite store."""

from __future__ import annotations

from collections.abc import Sequence

from coatcheck.model.artifact import Artifact
from coatcheck.model.job import Lease
from coatcheck.model.payload import NOBODY, BlobName
from coatcheck.model.upload import StoredUpload
from coatcheck.store.sqlite.database.reader import Reader
from coatcheck.store.sqlite.database.statements import SQL
from coatcheck.store.sqlite.database.transaction import Urgency
from coatcheck.store.sqlite.database.writer import Writer
from coatcheck.store.sqlite.operations import blobs
from coatcheck.store.sqlite.operations import jobs as job_operations


class SQLiteFiles:
    """The verbs on blobs, artifacts and uploads."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def reserve_blob(self, blob: BlobName, remove_at: int) -> None:
        """Reserve a blob before its bytes are written."""
        await self._writer.write(lambda tx: blobs.reserve(tx, blob, remove_at), Urgency.SUBMIT)

    async def record_artifact(
        self, lease: Lease, artifact: Artifact, content: str | None = None
    ) -> bool:
        """Record an artifact of a running job."""
        return await self._writer.write(
            lambda tx: job_operations.keep_artifact(tx, lease, artifact, content), Urgency.WORKER
        )

    async def get_artifact_content(self, tenant: str, job_id: str, name: str) -> str | None:
        """Read the content of an artifact that is stored in its row."""
        rows = await self._reader.all(SQL.artifact_content, (tenant, job_id, name))
        return rows[0][0] if rows else None

    async def start_blob_removal(self, now: int, limit: int) -> list[BlobName]:
        """Mark unreferenced blobs as being removed. An idle store is only read."""
        if await self._reader.one(SQL.blobs_to_remove, (now, 1)) is None:
            return []
        return await self._writer.write(
            lambda tx: blobs.take_unneeded(tx, now, limit), Urgency.BULK
        )

    async def finish_blob_removal(self, gone: Sequence[BlobName]) -> None:
        """Delete the rows of blobs whose bytes are gone."""
        await self._writer.write(lambda tx: blobs.forget(tx, gone), Urgency.BULK)

    # --- uploads

    async def put_upload(self, tenant: str, upload: StoredUpload) -> None:
        """Record an upload that no job has taken over."""
        await self._writer.write(lambda tx: blobs.put_upload(tx, tenant, upload), Urgency.SUBMIT)

    async def get_upload(
        self, tenant: str, upload_id: str, job_id: str = NOBODY
    ) -> StoredUpload | None:
        """Read an upload."""
        row = await self._reader.one_inline(SQL.upload, (tenant, job_id, upload_id))
        return None if row is None else StoredUpload(*row)

    async def list_uploads(self, tenant: str, job_id: str) -> list[StoredUpload]:
        """List the uploads of a job."""
        rows = await self._reader.all(SQL.uploads_of, (tenant, job_id))
        return [StoredUpload(*row) for row in rows]

    async def delete_upload(self, tenant: str, upload_id: str) -> bool:
        """Delete an upload that no job has taken over."""
        return await self._writer.write(
            lambda tx: blobs.delete_upload(tx, tenant, upload_id), Urgency.SUBMIT
        )
