"""The write operations on jobs, each a function of a transaction that can be run again.

Each reads the job's status, takes the transition from `coatcheck.model.transition`, and writes the
job and its event together. No rule is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import apsw

from coatcheck.errors import Conflict, IdTaken, InputGone, KeyReused
from coatcheck.model import transition as rules
from coatcheck.model.artifact import Artifact
from coatcheck.model.event import EventType
from coatcheck.model.job import JobInsert, Lease
from coatcheck.model.outcome import Succeeded, Waiting
from coatcheck.model.payload import blobs_in, is_reference, is_same
from coatcheck.model.state import State
from coatcheck.model.step import event_sent
from coatcheck.model.usage import bytes_of, submitted
from coatcheck.model.webhook import PHASE
from coatcheck.store.base import (
    NO_WORKER,
    DeletedJob,
    ExistingSubmission,
    FinishedJob,
    Idempotency,
    Report,
    Settlement,
    Topic,
)
from coatcheck.store.shared.rows import (
    encode_progress,
    new_job_row,
    phase_told,
    report_entries,
    step_entry,
    step_row,
)
from coatcheck.store.sqlite import records, webhooks
from coatcheck.store.sqlite.database.statements import SQL
from coatcheck.store.sqlite.database.transaction import Transaction
from coatcheck.store.sqlite.operations import blobs
from coatcheck.store.sqlite.operations.transitions import begin_waiting, cascade, find, wake, write

STALE_WRITES = "stale_writes"

_INSERT_JOB = SQL.insert_job
_INSERT_PAYLOAD = SQL.insert_payload
_INSERT_EVENT = SQL.insert_event
_PUT_STEP = SQL.put_step
_HELD = SQL.held
_UPDATE_REPORT = SQL.update_report


def submit(tx: Transaction, job: JobInsert, now: int, fence: int = 0) -> None:
    """Insert a queued job. A job with the same id is left unchanged."""
    if _insert(tx, job, now, fence):
        tx.topics.add(Topic.WORK)


def submit_finished(tx: Transaction, job: JobInsert, ended: FinishedJob, now: int) -> None:
    """Insert a job in its terminal state. A job with the same id is left unchanged."""
    if not _insert(tx, job, job.created_at):
        return
    found = find(tx, job.tenant, job.id)
    assert found is not None, "it was just inserted"
    taken = rules.claimed(found.status, NO_WORKER, ended.began_at)
    write(tx, job.tenant, job.id, found, taken, ended.began_at)
    lease = Lease(job.tenant, job.id, taken.status.fence)
    _settle(tx, Settlement(lease, ended.outcome, ended.report), now)
    for record in ended.records:
        records.put(tx, record, None)


def _insert(tx: Transaction, job: JobInsert, now: int, fence: int = 0) -> bool:
    """Insert a job and the rows that belong to it. Returns False if its id exists."""
    status, event = rules.created(job.run_at, now)
    try:
        tx.execute(_INSERT_JOB, new_job_row(job, status._replace(fence=fence)))
    except apsw.ConstraintError as error:
        if getattr(error, "extendedresult", 0) != apsw.SQLITE_CONSTRAINT_UNIQUE:
            raise
        raise IdTaken(f"the public id {job.public_id!r} is taken") from error
    if not tx.changed():
        return False
    tx.execute(_INSERT_PAYLOAD, (job.tenant, job.id, "input", job.input))
    if is_reference(job.input):
        blobs.adopt(tx, blobs_in([(job.tenant, job.id, job.input)]))
    if job.uploads:
        blobs.adopt_uploads(tx, job)
    if job.input_until is not None:
        tx.execute(SQL.keep_input_until, (job.input_until, job.tenant, job.id))
    tx.execute(_INSERT_EVENT, (job.tenant, job.id, 1, EventType.STATE, now, event))
    if job.labels != "{}":
        tx.execute(SQL.insert_labels, (job.tenant, job.id, job.labels))
    webhooks.add_job_endpoint(tx, job)
    tx.meter(submitted(job.tenant, job.kind, 1, bytes_of(job.input), now))
    return True


def submit_all(tx: Transaction, new: Sequence[JobInsert], now: int) -> None:
    """Insert several jobs."""
    for job in new:
        submit(tx, job, now)


def submit_once(
    tx: Transaction, new: Sequence[JobInsert], now: int, once: Idempotency
) -> ExistingSubmission | None:
    """Insert jobs and their idempotency key, unless an earlier submission holds the key."""
    earlier = holder_of_key(tx, new, now, once)
    if earlier is None:
        submit_all(tx, new, now)
        hold_key(tx, new, once)
    return earlier


def holder_of_key(
    tx: Transaction, new: Sequence[JobInsert], now: int, once: Idempotency
) -> ExistingSubmission | None:
    """Return the submission that holds an idempotency key, unless it is this one."""
    row = tx.one(SQL.key, (new[0].tenant, once.key, now))
    return None if row is None or row[0] == new[0].id else ExistingSubmission(*row)


def hold_key(tx: Transaction, new: Sequence[JobInsert], once: Idempotency) -> None:
    """Write the idempotency key of these jobs."""
    first = new[0]
    values = (first.tenant, once.key, once.fingerprint, first.id, len(new), once.expires_at)
    tx.execute(SQL.put_key, values)


def delete(tx: Transaction, tenant: str, job_id: str, now: int) -> DeletedJob | None:
    """Delete a finished job. Returns None if there is none."""
    found = find(tx, tenant, job_id)
    if found is None:
        return None
    rowid, status = found.rowid, found.status
    if not status.state.is_terminal:
        raise Conflict(f"job {job_id} is {status.state}: only a job that has ended is deleted")
    tx.topics.add(Topic.CHANGES)
    return remove(tx, rowid, tenant, job_id, now)


def remove(tx: Transaction, rowid: int, tenant: str, job_id: str, now: int) -> DeletedJob:
    """Delete a job with everything that belongs to it, and leave a tombstone."""
    tx.execute(SQL.delete_payloads, (tenant, job_id))
    payloads = tx.changed()
    tx.execute(SQL.delete_events, (tenant, job_id))
    events = tx.changed()
    tx.execute(SQL.delete_steps, (tenant, job_id))
    steps = tx.changed()
    tx.execute(SQL.delete_messages, (tenant, job_id))
    messages = tx.changed()
    artifacts, uploads, doomed = blobs.remove(tx, tenant, job_id)
    deliveries = webhooks.delete_job_deliveries(tx, tenant, job_id)
    tx.execute(SQL.delete_job, (rowid,))
    tx.execute(SQL.insert_tombstone, (tenant, job_id, now))
    files = (artifacts, uploads, doomed)
    return DeletedJob(job_id, payloads, events, steps, *files, messages, deliveries)


def settle(tx: Transaction, settlements: Sequence[Settlement], now: int) -> list[bool]:
    """Settle attempts, each only if its lease is current."""
    return [_settle(tx, settlement, now) for settlement in settlements]


def _settle(tx: Transaction, settlement: Settlement, now: int) -> bool:
    lease, outcome, last_words = settlement
    found = find(tx, lease.tenant, lease.job_id)
    if found is None or found.status.fence != lease.fence:
        return _stale(tx)
    rowid, status, terms = found.rowid, found.status, found.terms
    if status.state is not State.RUNNING:
        return True  # this lease settled the job before; its response was lost
    if last_words is not None:
        last_event = _write_report(tx, lease, rowid, status.last_event, last_words, now)
        status = status._replace(last_event=last_event)
    ended = rules.settled(status, terms, outcome, now)
    write(tx, lease.tenant, lease.job_id, found._replace(status=status), ended, now)
    if isinstance(outcome, Succeeded):
        tx.execute(_INSERT_PAYLOAD, (lease.tenant, lease.job_id, "result", outcome.result))
        if is_reference(outcome.result):
            blobs.adopt(tx, blobs_in([(lease.tenant, lease.job_id, outcome.result)]))
    elif ended.status.state is State.WAITING and isinstance(outcome, Waiting):
        begin_waiting(tx, lease.tenant, lease.job_id, outcome, now)
        if outcome.until is not None:
            tx.topics.add(Topic.WORK)  # a worker has to claim it at that time
    elif ended.status.state is State.CANCELLED:
        cascade(tx, lease.tenant, lease.job_id, now)
    tx.topics.add(Topic.CHANGES)
    if ended.status.state is State.QUEUED:
        tx.topics.add(Topic.WORK)
    return True


def report(tx: Transaction, lease: Lease, said: Report, now: int) -> bool:
    """Write progress, phase and log entries of a running job."""
    found = tx.one(_HELD, (lease.tenant, lease.job_id, lease.fence))
    if found is None:
        return _stale(tx)
    rowid, last_event = found
    _write_report(tx, lease, rowid, last_event, said, now)
    tx.topics.add(Topic.REPORTS)
    return True


def keep_artifact(tx: Transaction, lease: Lease, artifact: Artifact, content: str | None) -> bool:
    """Record an artifact of a running job."""
    found = find(tx, lease.tenant, lease.job_id)
    if found is None or found[1].fence != lease.fence or found[1].state is not State.RUNNING:
        return _stale(tx)
    blobs.keep_artifact(tx, lease, artifact, content)
    return True


def _write_report(
    tx: Transaction, lease: Lease, rowid: int, last_event: int, said: Report, now: int
) -> int:
    """Write a report of a job whose lease was checked. Returns the number of its last event."""
    entries = report_entries(said)
    for step in said.steps:
        tx.execute(_PUT_STEP, step_row(lease.tenant, lease.job_id, step))
        if tx.changed():
            entries.append((EventType.STEP, step_entry(step)))
        if step.result is not None and is_reference(step.result):
            blobs.adopt(tx, blobs_in([(lease.tenant, lease.job_id, step.result)]))
    if said.children:
        submit_all(tx, said.children, now)
    for file in said.files:
        blobs.keep_artifact(tx, lease, *file)
    progress = None if said.progress is None else encode_progress(said.progress)
    for kind, data in entries:
        last_event += 1
        tx.execute(_INSERT_EVENT, (lease.tenant, lease.job_id, last_event, kind, now, data))
        if (told := phase_told(kind, data)) is not None:
            webhooks.enqueue_deliveries(
                tx, lease.tenant, lease.job_id, last_event, PHASE, told, now
            )
    tx.execute(_UPDATE_REPORT, (progress, said.phase, last_event, rowid))
    return last_event


def lose(tx: Transaction, tenant: str, job_id: str, now: int) -> None:
    """Handle a running job whose worker is lost."""
    found = find(tx, tenant, job_id)
    if found is not None:
        gone = rules.lost(found.status, found.terms, now)
        if gone is not None:
            write(tx, tenant, job_id, found, gone, now)
            tx.topics.update((Topic.WORK, Topic.CHANGES))


def send(
    tx: Transaction,
    tenant: str,
    job_id: str,
    name: str,
    data: str,
    now: int,
    key: str | None,
    most: int,
) -> bool:
    """Store an event for a job and wake it if it waits for that. Returns False if it is gone."""
    found = find(tx, tenant, job_id)
    if found is None:
        return False
    if key is not None and (sent := tx.one(SQL.message_with_key, (tenant, job_id, key))):
        if sent[0] != name or not is_same(sent[1], data):
            raise KeyReused("this idempotency key was used for another event")
        return True
    if found.status.state.is_terminal:
        raise Conflict(
            f"job {job_id} is {found.status.state}: nobody will wait for an event any more"
        )
    if tx.one(SQL.count_messages, (tenant, job_id))[0] >= most:
        raise Conflict(f"job {job_id} has {most:,} events already, and takes no more")
    (number,) = tx.one(SQL.insert_message, (tenant, job_id, name, data, now, key))
    blobs.adopt(tx, blobs_in([(tenant, job_id, data)]))
    tx.topics.add(Topic.CHANGES)
    for part in tx.all(SQL.delete_own_wait, (tenant, event_sent(name, number), job_id)):
        if tx.one(SQL.is_part_over, (tenant, job_id, *part))[0]:
            wake(tx, tenant, job_id, now)
    return True


def resume(tx: Transaction, tenant: str, job_id: str, now: int) -> bool:
    """Queue a failed or cancelled job again. Returns False if it is gone."""
    found = find(tx, tenant, job_id)
    if found is None:
        return False
    again = rules.resumed(found.status, found.terms, now)
    if again is not None:
        if tx.one(SQL.payload, (tenant, job_id, "input")) is None:
            raise InputGone(f"the input of job {job_id} is gone: it cannot go on")
        write(tx, tenant, job_id, found, again, now)
        tx.execute(SQL.drop_passed_deadline, (found.rowid, now))
        tx.execute(SQL.delete_cascade, (tenant, job_id))
        tx.topics.update((Topic.WORK, Topic.CHANGES))
    return True


def fork(
    tx: Transaction, source: str, before: int, job: JobInsert, now: int, copies: Mapping[str, str]
) -> None:
    """Insert a job with steps of another. A job with the same id is left unchanged."""
    if find(tx, job.tenant, job.id) is None:
        submit(tx, job, now, fence=1)
        tx.execute(SQL.copy_steps, (job.id, job.tenant, source, before))
        tx.execute(SQL.copy_taken_messages, (job.id, job.tenant, source))
        blobs.take_copies(tx, source, job, copies)


def _stale(tx: Transaction) -> bool:
    tx.execute(SQL.count_up, (STALE_WRITES, 1))
    return False
