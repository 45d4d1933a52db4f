"""Write a transition of a job with all its consequences, in the same transaction.

- Its event, its webhook deliveries, and its usage.
- If a job that counts for a limit stops running, the workers are woken: another can start.
- If a job leaves `waiting`, its waits are deleted.
- If a job finishes, jobs that wait for it are woken.
- If a job is cancelled, so are its children. The job is recorded in `cascades`, and the children
  are cancelled some at a time: the first by the caller, the rest by the sweep.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from coatcheck.model import transition as rules
from coatcheck.model.event import EventType
from coatcheck.model.job import Terms
from coatcheck.model.outcome import Waiting
from coatcheck.model.state import State
from coatcheck.model.step import child_finished
from coatcheck.model.transition import JobStatus, Transition
from coatcheck.model.usage import moved
from coatcheck.store.base import Topic
from coatcheck.store.shared.rows import STATUS_FIELDS, read_status, status_row
from coatcheck.store.sqlite import webhooks
from coatcheck.store.sqlite.database.statements import SQL
from coatcheck.store.sqlite.database.transaction import Transaction

# How many children are cancelled with their parent at a time.
CASCADE_AT_ONCE = 200

_INSERT_EVENT = SQL.insert_event
_UPDATE_STATUS = SQL.update_status
_STATUS_OF = SQL.status_of


class JobRow(NamedTuple):
    """A job's rowid, status, terms and kind, and whether it counts for a limit while it runs."""

    rowid: int
    status: JobStatus
    terms: Terms
    kind: str
    limited: bool = False


def find(tx: Transaction, tenant: str, job_id: str) -> JobRow | None:
    """Read a job's status."""
    row = tx.one(_STATUS_OF, (tenant, job_id))
    if row is None:
        return None
    split = 1 + STATUS_FIELDS
    return JobRow(row[0], read_status(row[1:split]), Terms(*row[split:-2]), row[-2], row[-1] == 1)


def write(
    tx: Transaction, tenant: str, job_id: str, found: JobRow, change: Transition, now: int
) -> None:
    """Write a transition. Every transition of a job uses this function."""
    rowid, before, terms, kind, limited = found
    status, event = change
    used = moved(tenant, kind, before, status, now)
    if used is not None:
        tx.meter(used)
    tx.execute(_UPDATE_STATUS, (*status_row(status), rowid))
    tx.execute(_INSERT_EVENT, (tenant, job_id, status.last_event, EventType.STATE, now, event))
    if status.state is not before.state:
        webhooks.enqueue_deliveries(tx, tenant, job_id, status.last_event, status.state, event, now)
    if limited and before.state is State.RUNNING and status.state is not State.RUNNING:
        tx.topics.add(Topic.WORK)  # the limit allows another start
    if before.state is State.WAITING:
        tx.execute(SQL.delete_waits, (tenant, job_id))
    if status.state.is_terminal:
        if terms.parent is not None:
            wake_waiters(tx, tenant, child_finished(job_id), now)
        if status.state is State.CANCELLED:
            tx.execute(SQL.begin_cascade, (tenant, job_id))


def begin_waiting(tx: Transaction, tenant: str, job_id: str, waiting: Waiting, now: int) -> None:
    """Record what a job waits for, right after its transition to `waiting`, or wake it at once."""
    for part, group in enumerate(waiting.groups):
        tx.execute(SQL.insert_waits, (tenant, job_id, part, json.dumps(group)))
    tx.execute(SQL.delete_waits_that_are_over, (tenant, job_id))
    unfinished = {row[0] for row in tx.all(SQL.unfinished_parts, (tenant, job_id))}
    if len(unfinished) < len(waiting.groups):
        wake(tx, tenant, job_id, now)


def wake_waiters(tx: Transaction, tenant: str, what: str, now: int) -> None:
    """Wake jobs for which this was the last missing event of a group."""
    for job_id, part in tx.all(SQL.delete_wait, (tenant, what)):
        if tx.one(SQL.is_part_over, (tenant, job_id, part))[0]:
            wake(tx, tenant, job_id, now)


def wake(tx: Transaction, tenant: str, job_id: str, now: int) -> None:
    """Queue a waiting job again."""
    found = find(tx, tenant, job_id)
    if found is None:
        return
    change = rules.woken(found.status, found.terms, now)
    if change is not None:
        write(tx, tenant, job_id, found, change, now)
        tx.topics.update((Topic.WORK, Topic.CHANGES))


def cancel(tx: Transaction, tenant: str, job_id: str, now: int) -> bool:
    """Request the cancellation of a job. Returns True if that finished the job."""
    found = find(tx, tenant, job_id)
    if found is None:
        return False
    asked = rules.request_cancel(found.status, found.terms, now)
    if asked is None:
        return False
    write(tx, tenant, job_id, found, asked, now)
    tx.topics.update((Topic.CANCELS, Topic.CHANGES))
    return asked.status.state is State.CANCELLED


def cascade(tx: Transaction, tenant: str, job_id: str, now: int) -> bool:
    """Cancel some children of a cancelled job. Returns True if there may be more."""
    children = tx.all(SQL.children_to_cancel, (tenant, job_id, CASCADE_AT_ONCE))
    for (child,) in children:
        cancel(tx, tenant, child, now)
    if len(children) == CASCADE_AT_ONCE:
        return True
    tx.execute(SQL.delete_cascade, (tenant, job_id))
    return False
