"""Submission under idempotency keys: the key and its jobs are one transaction.

Reserving a key locks its row until the transaction ends. So of two submits under one key, from any
process, the second sees the outcome of the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from coatcheck.model.job import JobInsert
from coatcheck.store.base import ExistingSubmission, Idempotency
from coatcheck.store.postgres.access import the_one_epoch
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.postgres.operations import jobs as job_operations


class KeyedSubmission(NamedTuple):
    """Jobs to submit under an idempotency key."""

    new: Sequence[JobInsert]
    now: int
    once: Idempotency
    epoch: int | None = None

    @property
    def name(self) -> tuple[str, str]:
        """The tenant and key under which the row is stored."""
        return self.new[0].tenant, self.once.key


async def submit_once(
    db: Any, sql: Statements, batch: Sequence[KeyedSubmission], now: int
) -> list[ExistingSubmission | None]:
    """Insert the jobs whose key is free; return the earlier submission for the others."""
    # One row for each key: within the batch the first item reserves it, and the others share the
    # answer.
    asked: dict[tuple[str, str], KeyedSubmission] = {}
    for item in batch:
        asked.setdefault(item.name, item)
    rows = [
        (*name, item.once.fingerprint, item.new[0].id, len(item.new), item.once.expires_at)
        for name, item in sorted(asked.items())
    ]
    found = await db.fetch(sql.reserve_keys, *job_operations.columns(rows, 6), now)
    holders = {(row[0], row[1]): ExistingSubmission(row[2], row[3], row[4]) for row in found}
    answers: list[ExistingSubmission | None] = []
    winners: list[JobInsert] = []
    for item in batch:
        holder = holders[item.name]
        won = holder.first_id == item.new[0].id
        answers.append(None if won else holder)
        if won:
            winners.extend(item.new)
    epoch = the_one_epoch(item.epoch for item in batch)
    await job_operations.submit(db, sql, winners, now, in_transaction=True, epoch=epoch)
    return answers
