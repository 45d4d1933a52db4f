"""Bulk insert: many submits as a few statements.

Jobs that arrive together mostly differ only in their ids, inputs, times and traces. So they are
grouped by everything else. A group takes three statements, each with the differing columns as one
JSON array. Such a statement runs without the interpreter lock, beside the loop that reads the next
requests. Jobs with labels, a public id, a deadline, a blob, an upload or a webhook are submitted
one by one. So is a whole group if anything about it is unusual, such as an id that exists.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic_core import to_json

from coatcheck.model import transition as rules
from coatcheck.model.job import JobInsert
from coatcheck.model.payload import is_reference
from coatcheck.model.usage import bytes_of, hour_of, submitted
from coatcheck.store.base import Topic
from coatcheck.store.sqlite.access import check_epoch
from coatcheck.store.sqlite.database.statements import SQL
from coatcheck.store.sqlite.database.transaction import Operation, Transaction


class PendingSubmit(NamedTuple):
    """A job to submit, the time of the submit, and the access epoch it was authorized under."""

    job: JobInsert
    now: int
    epoch: int | None = None


class NotBulkInsertable(Exception):
    """A group cannot be inserted as one. Each of its jobs can be inserted separately."""


def can_be_merged(job: JobInsert) -> bool:
    """Return whether the merged statements have a column for everything in a job."""
    return (
        job.labels == "{}"
        and job.public_id is None
        and job.limit_key is None
        and job.terms.deadline_at is None
        and job.terms.parent is None
        and job.forked_from is None
        and job.webhook is None
        and not is_reference(job.input)
        and job.input_until is None
        and not job.uploads
    )


def merge(incoming: Sequence[PendingSubmit]) -> Operation[None]:
    """Return one operation that submits all of these jobs."""
    groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    for job, now, _ in incoming:
        common = (job.tenant, job.surface, job.kind, job.queue, job.priority, *job.terms[:5])
        groups[common, job.run_at <= now, hour_of(now)].append(
            (
                job.id,
                job.correlation_id,
                job.traceparent,
                job.created_at,
                job.run_at,
                now,
                job.input,
            )
        )
    prepared = [
        (common, due, len(rows), to_json(rows).decode())
        for (common, due, _), rows in groups.items()
    ]
    used = [
        submitted(
            common[0], common[2], len(rows), sum(bytes_of(row[6]) for row in rows), rows[0][5]
        )
        for (common, _, _), rows in groups.items()
    ]
    epochs = {item.epoch for item in incoming if item.epoch is not None}

    def submit(tx: Transaction) -> None:
        for epoch in epochs:
            check_epoch(tx, epoch)
        for common, due, count, rows in prepared:
            # The initial status depends on a job's time only by whether that time has passed.
            status, event = rules.created(0 if due else 1, 0)
            tx.execute(SQL.insert_jobs_alike, (*common, status.claimable, rows))
            if tx.changed() != count:
                raise NotBulkInsertable
            tx.execute(SQL.insert_inputs, (common[0], rows))
            tx.execute(SQL.insert_first_events, (common[0], event, rows))
        for each in used:
            tx.meter(each)
        tx.topics.add(Topic.WORK)

    return submit
