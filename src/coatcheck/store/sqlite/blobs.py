"""Which blobs there are and whose they are, as a part of the transactions that name them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from coatcheck.errors import BlobGone, Conflict
from coatcheck.model.artifact import MOST_OF_A_JOB, Artifact
from coatcheck.model.job import Lease
from coatcheck.model.payload import BlobName
from coatcheck.store.base import Topic
from coatcheck.store.sqlite.operation import Transaction
from coatcheck.store.sqlite.statements import SQL


def reserve(tx: Transaction, blob: BlobName, remove_at: int) -> None:
    """Note a blob that is about to be written."""
    tx.execute(SQL.reserve_blob, (*blob, remove_at))


def adopt(tx: Transaction, blobs: Iterable[BlobName]) -> None:
    """Keep blobs for as long as their job, from the commit of this transaction on."""
    for blob in blobs:
        tx.execute(SQL.adopt_blob, blob)
        if not tx.changed():
            raise BlobGone(f"blob {blob.key} was removed before anybody named it")


def keep_artifact(tx: Transaction, lease: Lease, artifact: Artifact) -> None:
    """Name a file of a job, in place of the one that had the name; the lease was checked."""
    job = (lease.tenant, lease.job_id)
    adopt(tx, [BlobName(*job, artifact.key)])
    replaced = tx.one(SQL.artifact_key, (*job, artifact.name))
    if replaced is None:
        if tx.one(SQL.count_artifacts, job)[0] >= MOST_OF_A_JOB:
            raise Conflict(f"a job leaves at most {MOST_OF_A_JOB} files behind")
    elif replaced[0] != artifact.key:
        tx.execute(SQL.doom_blob, (*job, replaced[0]))
    tx.execute(SQL.put_artifact, (*job, *artifact))
    tx.topics.add(Topic.CHANGES)


def remove(tx: Transaction, tenant: str, job_id: str) -> tuple[int, int]:
    """Let go of what a deleted job has kept; return how many files and how many blobs that was."""
    tx.execute(SQL.delete_artifacts, (tenant, job_id))
    artifacts = tx.changed()
    tx.execute(SQL.doom_blobs, (tenant, job_id))
    return artifacts, tx.changed()


def take_unneeded(tx: Transaction, now: int, limit: int) -> list[BlobName]:
    """Return blobs to be removed, which nobody can adopt from now on."""
    found = [BlobName(*row) for row in tx.all(SQL.blobs_to_remove, (now, limit))]
    for blob in found:
        tx.execute(SQL.doom_blob, blob)
    return found


def forget(tx: Transaction, blobs: Sequence[BlobName]) -> None:
    """Drop the rows of blobs whose bytes are gone."""
    for blob in blobs:
        tx.execute(SQL.forget_blob, blob)
