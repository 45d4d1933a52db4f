"""Which blobs there are and whose they are, as a part of the transactions that name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coatcheck.errors import BlobGone, Conflict
from coatcheck.model.artifact import MOST_OF_A_JOB, Artifact
from coatcheck.model.payload import BlobName
from coatcheck.store.postgres.statements import Statements


async def adopt(db: Any, sql: Statements, blobs: Sequence[BlobName]) -> None:
    """Keep blobs for as long as their job, from the commit of this transaction on."""
    if not blobs:
        return
    # In one order, as everywhere, so that two that share some never wait in a circle.
    named = sorted(set(blobs))
    kept = await db.execute(sql.adopt_blobs, *map(list, zip(*named, strict=True)))
    if kept != f"UPDATE {len(named)}":
        raise BlobGone("a blob was removed before anybody named it")


async def keep_artifact(db: Any, sql: Statements, tenant: str, job_id: str, new: Artifact) -> None:
    """Name a file of a job that is locked, in place of the one that had the name."""
    await adopt(db, sql, [BlobName(tenant, job_id, new.key)])
    replaced = await db.fetchval(sql.artifact_key, tenant, job_id, new.name)
    if replaced is None:
        if await db.fetchval(sql.count_artifacts, tenant, job_id) >= MOST_OF_A_JOB:
            raise Conflict(f"a job leaves at most {MOST_OF_A_JOB} files behind")
    elif replaced != new.key:
        await db.execute(sql.doom_blob, tenant, job_id, replaced)
    await db.execute(sql.put_artifact, tenant, job_id, *new)


async def remove(db: Any, sql: Statements, keys: Sequence[Any]) -> tuple[int, int]:
    """Let go of what deleted jobs have kept; return how many files and how many blobs that was."""
    artifacts = await db.execute(sql.delete_artifacts, *keys)
    blobs = await db.execute(sql.doom_blobs, *keys)
    return int(artifacts.rpartition(" ")[2]), int(blobs.rpartition(" ")[2])
