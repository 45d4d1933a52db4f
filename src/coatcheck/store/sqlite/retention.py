"""What the sweep does: deadlines, retention, leftovers. Each operation is bounded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coatcheck.model import transition as rules
from coatcheck.model.job import Terms
from coatcheck.model.transition import JobStatus, Transition
from coatcheck.store.base import SweepResult, Topic
from coatcheck.store.sqlite import jobs
from coatcheck.store.sqlite.statements import SQL
from coatcheck.store.sqlite.transaction import Transaction
from coatcheck.store.sqlite.transitions import cascade, find, write

Rule = Callable[[JobStatus, Terms, int], Transition | None]

AT_ONCE = 200
TOMBSTONES_KEPT_MS = 7 * 86_400_000


def sweep(tx: Transaction, now: int) -> SweepResult:
    """Do a bounded amount of everything that is due."""
    expired = _end(tx, tx.all(SQL.past_deadline, (now, AT_ONCE)), rules.expired, now)
    long_ago = now - rules.OVERRUN_MS
    overran = _end(tx, tx.all(SQL.running_past_deadline, (long_ago, AT_ONCE)), rules.overran, now)
    tx.execute(SQL.drop_old_inputs, (now, AT_ONCE))
    dropped = tx.changed()
    deleted = _delete(tx, now)
    cascading = [
        cascade(tx, tenant, job_id, now)
        for tenant, job_id in tx.all(SQL.cascades, (AT_ONCE // 10,))
    ]
    tx.execute(SQL.delete_old_tombstones, (now - TOMBSTONES_KEPT_MS, AT_ONCE))
    tx.execute(SQL.delete_expired_records, (now, AT_ONCE))
    tx.execute(SQL.delete_expired_keys, (now, AT_ONCE))
    more = AT_ONCE in (expired, overran, dropped, deleted) or any(cascading)
    return SweepResult(expired=expired + overran, deleted=deleted, more=more)


def _end(tx: Transaction, overdue: Sequence[tuple[str, str]], rule: Rule, now: int) -> int:
    # Parents come before what they have spawned: the end of a child would wake one that is as late.
    for tenant, job_id in sorted(overdue):
        found = find(tx, tenant, job_id)
        if found is not None:
            ended = rule(found.standing, found.terms, now)
            if ended is not None:
                write(tx, tenant, job_id, found, ended, now)
                tx.topics.add(Topic.CHANGES)
    return len(overdue)


def _delete(tx: Transaction, now: int) -> int:
    old = tx.all(SQL.past_retention, (now, AT_ONCE))
    for rowid, tenant, job_id in old:
        jobs.remove(tx, rowid, tenant, job_id, now)
    return len(old)
