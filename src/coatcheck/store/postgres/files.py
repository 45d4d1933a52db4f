"""The files part of the PostgreSQL store."""

from __future__ import annotations

from collections.abc import Sequence

from coatcheck.model.artifact import Artifact
from coatcheck.model.job import Lease
from coatcheck.model.payload import NOBODY, BlobName
from coatcheck.model.upload import StoredUpload
from coatcheck.store.base import Topic
from coatcheck.store.postgres.database.notify import Notifications
from coatcheck.store.postgres.database.pool import Database
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.postgres.operations import blobs
from coatcheck.store.postgres.operations import jobs as job_operations


class PostgresFiles:
    """The verbs on blobs, artifacts and uploads."""

    def __init__(self, database: Database, sql: Statements, notifications: Notifications) -> None:
        self._database = database
        self._sql = sql
        self._notifications = notifications

    async def reserve_blob(self, blob: BlobName, remove_at: int) -> None:
        """Reserve a blob before its bytes are written."""
        await self._database.execute(self._sql.reserve_blob, *blob, remove_at)

    async def record_artifact(
        self, lease: Lease, artifact: Artifact, content: str | None = None
    ) -> bool:
        """Record an artifact of a running job."""
        kept = await self._database.run(
            lambda db: job_operations.keep_artifact(db, self._sql, lease, artifact, content)
        )
        self._notifications.publish({Topic.CHANGES})
        return kept

    async def get_artifact_content(self, tenant: str, job_id: str, name: str) -> str | None:
        """Read the content of an artifact that is stored in its row."""
        rows = await self._database.fetch(self._sql.artifact_content, tenant, job_id, name)
        return rows[0][0] if rows else None

    async def start_blob_removal(self, now: int, limit: int) -> list[BlobName]:
        """Mark unreferenced blobs as being removed."""
        rows = await self._database.fetch(self._sql.take_unneeded_blobs, now, limit)
        return [BlobName(*row) for row in rows]

    async def finish_blob_removal(self, gone: Sequence[BlobName]) -> None:
        """Delete the rows of blobs whose bytes are gone."""
        await self._database.execute(self._sql.forget_blobs, *job_operations.columns(gone, 3))

    # --- uploads

    async def put_upload(self, tenant: str, upload: StoredUpload) -> None:
        """Record an upload that no job has taken over."""
        await self._database.run(lambda db: blobs.put_upload(db, self._sql, tenant, upload))

    async def get_upload(
        self, tenant: str, upload_id: str, job_id: str = NOBODY
    ) -> StoredUpload | None:
        """Read an upload."""
        row = await self._database.fetchrow(self._sql.upload, tenant, job_id, upload_id)
        return None if row is None else StoredUpload(*row)

    async def list_uploads(self, tenant: str, job_id: str) -> list[StoredUpload]:
        """List the uploads of a job."""
        rows = await self._database.fetch(self._sql.uploads_of, tenant, job_id)
        return [StoredUpload(*row) for row in rows]

    async def delete_upload(self, tenant: str, upload_id: str) -> bool:
        """Delete an upload that no job has taken over."""
        return await self._database.run(
            lambda db: blobs.delete_upload(db, self._sql, tenant, upload_id)
        )
