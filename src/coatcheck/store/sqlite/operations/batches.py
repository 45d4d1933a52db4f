"""Large batches: all or none, without one long transaction that would block other writers.

1. The jobs are staged as JSON, in slices, each in a small transaction. They are not visible yet.
2. One small write marks the batch as accepted and records its idempotency key. From here on the
   batch will happen, whatever crashes.
3. Slice by slice, in small transactions, the jobs are inserted. A slice is deleted in the
   transaction that inserts its jobs, so it cannot be applied twice, and any process may apply it.
4. When no slice is left the batch is deleted, and the caller is answered.

A crash before 2 leaves slices that the sweep deletes after a while. A crash after 2 leaves an
accepted batch, which the sweep of any process finishes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from pydantic_core import to_json

from coatcheck.errors import StoreUnavailable
from coatcheck.model.job import JobInsert, Terms
from coatcheck.model.payload import blobs_in
from coatcheck.model.upload import StoredUpload
from coatcheck.model.webhook import Callback
from coatcheck.store.base import ExistingSubmission, Idempotency
from coatcheck.store.sqlite.database.statements import SQL
from coatcheck.store.sqlite.database.transaction import Transaction, Urgency
from coatcheck.store.sqlite.database.writer import Writer
from coatcheck.store.sqlite.operations import blobs
from coatcheck.store.sqlite.operations import jobs as job_operations

SLICE = 100
ABANDONED_AFTER_MS = 600_000


async def submit(
    writer: Writer, batch: str, new: Sequence[JobInsert], now: int, once: Idempotency | None
) -> ExistingSubmission | None:
    """Write many jobs slice by slice, unless an earlier submission holds their idempotency key."""
    await writer.write(lambda tx: begin(tx, batch, now), Urgency.BULK)
    for number, start in enumerate(range(0, len(new), SLICE)):
        slice_ = new[start : start + SLICE]
        await writer.write(partial(stage, batch=batch, number=number, slice_=slice_), Urgency.BULK)
    earlier = await writer.write(lambda tx: accept(tx, batch, new, now, once), Urgency.BULK)
    if earlier is None:
        await finish(writer, batch, now)
    else:
        while await finish_accepted(writer, now):
            continue  # finish all accepted batches: the earlier one may be among them
    return earlier


async def finish_accepted(writer: Writer, now: int) -> bool:
    """Finish an accepted batch. Returns False if there is none."""
    batch = await writer.write(lambda tx: unfinished(tx, now), Urgency.BULK)
    if batch is not None:
        await finish(writer, batch, now)
    return batch is not None


async def finish(writer: Writer, batch: str, now: int) -> None:
    """Insert the jobs of an accepted batch, slice by slice."""
    while await writer.write(lambda tx: apply_next_slice(tx, batch, now), Urgency.BULK):
        continue


def begin(tx: Transaction, batch: str, now: int) -> None:
    """Create a batch."""
    tx.execute(SQL.insert_batch, (batch, now))


def stage(tx: Transaction, batch: str, number: int, slice_: Sequence[JobInsert]) -> None:
    """Write one slice. Its jobs are not visible yet."""
    tx.execute(SQL.insert_slice, (number, to_json(slice_).decode(), batch))
    _still_there(tx)


def accept(
    tx: Transaction, batch: str, new: Sequence[JobInsert], now: int, once: Idempotency | None
) -> ExistingSubmission | None:
    """Accept the batch, or drop it if an earlier submission holds its idempotency key."""
    if once is not None:
        earlier = job_operations.holder_of_key(tx, new, now, once)
        if earlier is not None:
            _drop(tx, batch)
            return earlier
        job_operations.hold_key(tx, new, once)
    tx.execute(SQL.accept_batch, (batch,))
    _still_there(tx)
    # From here on the batch will be applied, however late, so its blobs must be kept.
    blobs.adopt(tx, blobs_in((job.tenant, job.id, job.input) for job in new))
    for job in new:
        blobs.adopt_uploads(tx, job)
    return None


def apply_next_slice(tx: Transaction, batch: str, now: int) -> bool:
    """Insert the jobs of one slice. Returns False if none is left and the batch is done."""
    row = tx.one(SQL.next_slice, (batch,))
    if row is None:
        tx.execute(SQL.delete_batch, (batch,))
        return False
    number, text = row
    job_operations.submit_all(tx, [_read(fields) for fields in json.loads(text)], now)
    tx.execute(SQL.delete_slice, (batch, number))
    return True


def _read(fields: Sequence[Any]) -> JobInsert:
    job = JobInsert(*fields)
    webhook = None if job.webhook is None else Callback(*job.webhook)
    uploads = tuple(StoredUpload(*upload) for upload in job.uploads)
    return job._replace(terms=Terms(*job.terms), webhook=webhook, uploads=uploads)


def _still_there(tx: Transaction) -> None:
    if not tx.changed():
        raise StoreUnavailable("the batch took too long to be written; nothing of it was kept")


def unfinished(tx: Transaction, now: int) -> str | None:
    """Return an accepted batch that is not finished, after deleting one that was abandoned."""
    abandoned = tx.one(SQL.abandoned_batches, (now - ABANDONED_AFTER_MS,))
    if abandoned is not None:
        _drop(tx, abandoned[0])
    accepted = tx.one(SQL.accepted_batches)
    return None if accepted is None else str(accepted[0])


def _drop(tx: Transaction, batch: str) -> None:
    tx.execute(SQL.delete_slices, (batch,))
    tx.execute(SQL.delete_batch, (batch,))
