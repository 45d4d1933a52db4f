"""The write operations on jobs, each for a whole batch inside one transaction.

Each locks and reads the jobs, takes the transitions from `coatcheck.model.transition`, and writes
the jobs and their events together. No rule is decided here. Each returns its answer and the topics
to publish after the commit.

Effects on *other* jobs are not part of the transaction; they run right after it, in transactions of
their own. `SettleEffects` lists them. See waiters.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import asyncpg

from coatcheck.model import transition as rules
from coatcheck.model.artifact import Artifact
from coatcheck.model.event import EventType
from coatcheck.model.job import JobInsert, Lease, Terms
from coatcheck.model.outcome import Succeeded, Waiting
from coatcheck.model.payload import BlobName, blobs_in, is_reference
from coatcheck.model.state import State
from coatcheck.model.transition import JobStatus, Transition
from coatcheck.model.usage import moved
from coatcheck.store.base import NO_WORKER, FinishedJob, Report, Settlement, Topic
from coatcheck.store.postgres import access, records, webhooks
from coatcheck.store.postgres.database.column_encoding import as_texts, in_columns
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.postgres.operations import blobs
from coatcheck.store.shared.rows import (
    NEW_JOB_COLUMNS,
    STATUS_FIELDS,
    encode_progress,
    new_job_row,
    phase_told,
    read_status,
    report_entries,
    status_row,
    step_entry,
    step_row,
)

Rule = Callable[[JobStatus, Terms, int], Transition | None]

STALE_WRITES = "stale_writes"
# The other columns are never NULL. Except for tenant and id, equal values are sent once.
_NULLABLE = {"public_id", "limit_key", "correlation_id", "traceparent", "deadline_at", "phase"}
_NULLABLE |= {
    "forked_from",
    "parent",
    "reason",
    "worker",
    "started_at",
    "finished_at",
    "expires_at",
    "error",
}
SENT_ONCE = [
    number
    for number, name in enumerate(NEW_JOB_COLUMNS)
    if name not in _NULLABLE and name not in ("tenant", "id")
]

Key = tuple[str, str]


class SettleEffects:
    """The effects to run once transitions are committed."""

    def __init__(self) -> None:
        self.ended: list[Key] = []  # jobs that were spawned by others
        self.cancelled: list[Key] = []
        self.waiting: list[Key] = []
        self.deliveries = 0

    def __bool__(self) -> bool:
        return bool(self.ended or self.cancelled or self.waiting or self.deliveries)


class LockedJob(NamedTuple):
    """A locked job."""

    status: JobStatus
    terms: Terms
    kind: str
    limited: bool = False  # counts for a limit while it runs


def columns(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Turn rows into one array for each column, as the statements take them."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * width


async def submit(
    db: Any,
    sql: Statements,
    new: Sequence[JobInsert],
    now: int,
    *,
    in_transaction: bool = False,
    fence: int = 0,
    epoch: int | None = None,
) -> int:
    """Insert jobs and return how many were new. Existing ids are left unchanged.

    Jobs for which `brings_more` is true need a transaction. Raises AccessChanged if the epoch is no
    longer current.
    """
    if not new:
        return 0
    # Of several jobs with one id, the first counts, as if they had been submitted one by one.
    rows = {(job.tenant, job.id): job for job in reversed(new)}
    values = [*new_job_columns(list(reversed(rows.values())), now, fence), epoch]
    guarded = sql.submit.replace("/* already there */", "ON CONFLICT (tenant, id) DO NOTHING")
    if in_transaction:  # an error would abort it
        written = await db.execute(guarded, *values)
        await access.check_epoch(db, sql, epoch, written)
        if written == access.NOTHING_WRITTEN:
            return 0  # inserted before, with their blobs, which may be released by now
        await blobs.adopt(db, sql, blobs_of(new))
        await blobs.adopt_uploads(db, sql, new)
        limited = [(job.tenant, job.id, job.input_until) for job in new if has_limit(job)]
        if limited:
            await db.execute(sql.keep_inputs_until, *columns(limited, 3))
        await webhooks.add_job_endpoint(db, sql, new)
        return _count(written)
    try:
        written = await db.execute(sql.submit, *values)
    except asyncpg.UniqueViolationError:
        # Rare, and expensive to prevent: check which ids exist and skip those.
        written = await db.execute(guarded, *values)
    await access.check_epoch(db, sql, epoch, written)
    return _count(written)


def _count(written: str) -> int:
    return int(written.rpartition(" ")[2])


async def submit_finished(
    db: Any, sql: Statements, job: JobInsert, ended: FinishedJob, now: int, epoch: int | None
) -> tuple[set[Topic], SettleEffects]:
    """Insert a job in its terminal state. An existing id is left unchanged."""
    key, handed_in = (job.tenant, job.id), job.created_at
    if not await submit(db, sql, [job], handed_in, in_transaction=True, epoch=epoch):
        # An earlier try may have written it without a notification.
        return {Topic.CHANGES, Topic.WEBHOOKS}, SettleEffects()
    # No other transaction sees the job yet, so it is as written, and there is nothing to lock.
    new = LockedJob(rules.created(job.run_at, handed_in).status, job.terms, job.kind)
    taken = rules.claimed(new.status, NO_WORKER, ended.began_at)
    claimed = await write(db, sql, {key: new}, {key: taken}, ended.began_at)
    running = new._replace(status=taken.status)
    settlement = Settlement(Lease(*key, taken.status.fence), ended.outcome, ended.report)
    _, topics, after = await settle(db, sql, [settlement], now, {key: running})
    after.deliveries += claimed.deliveries
    # Write in a fixed order to avoid deadlocks.
    for record in sorted(ended.records, key=lambda each: (each.tenant, each.collection, each.key)):
        await records.put(db, sql, record)
    return topics, after


def has_limit(job: JobInsert) -> bool:
    """Return whether a job's input is deleted before the job."""
    return job.input_until is not None


def brings_more(job: JobInsert) -> bool:
    """Return whether inserting a job takes more than one statement."""
    return is_reference(job.input) or bool(job.uploads) or has_limit(job) or job.webhook is not None


def blobs_of(new: Sequence[JobInsert]) -> list[BlobName]:
    """Return the blobs that hold the inputs of new jobs."""
    return blobs_in((job.tenant, job.id, job.input) for job in new)


def new_job_columns(new: Sequence[JobInsert], now: int, fence: int = 0) -> list[Any]:
    """Return new jobs as the columns of `submit`."""
    # Most jobs of a batch have the same due time, and all of those have the same initial status.
    begun = {
        run_at: rules.created(run_at, now).status._replace(fence=fence)
        for run_at in {job.run_at for job in new}
    }
    rows = [(*new_job_row(job, begun[job.run_at]), job.input) for job in new]
    return [*as_texts(list(zip(*rows, strict=True)), SENT_ONCE), now]


async def settle(
    db: Any,
    sql: Statements,
    settlements: Sequence[Settlement],
    now: int,
    found: dict[Key, LockedJob] | None = None,
) -> tuple[list[bool], set[Topic], SettleEffects]:
    """Settle attempts, each only if its lease is current.

    `found` are the jobs if the caller has them and no other transaction can see them.
    """
    if found is None:
        found = await lock(db, sql, [key_of(item.lease) for item in settlements])
    fresh = [item for item in settlements if _holds(found, item.lease)]
    ending = {
        key_of(item.lease): item
        for item in reversed(fresh)
        if found[key_of(item.lease)].status.state is State.RUNNING
    }
    said = [(item.lease, item.report) for item in ending.values() if item.report is not None]
    tells = await write_reports(db, sql, said, found, now)
    changes: dict[Key, Transition] = {}
    results: dict[Key, str] = {}
    for key, (_, outcome, _) in ending.items():
        changes[key] = rules.settled(found[key].status, found[key].terms, outcome, now)
        if isinstance(outcome, Succeeded):
            results[key] = outcome.result
    after = await write(db, sql, found, changes, now, results)
    after.deliveries += tells
    await blobs.adopt(db, sql, blobs_in((*key, result) for key, result in results.items()))
    waits = [
        (key[0], what, key[1], part)
        for key, (_, outcome, _) in ending.items()
        if isinstance(outcome, Waiting) and changes[key].status.state is State.WAITING
        for part, group in enumerate(outcome.groups)
        for what in group
    ]
    if waits:
        await db.execute(sql.insert_waits, *columns(waits, 4))
    await count_stale(db, sql, len(settlements) - len(fresh))
    # An earlier try may have settled a job without a notification: then notify of everything.
    again = len(fresh) > len(changes)
    topics = {Topic.CHANGES} if changes else set()
    states = {change.status.state for change in changes.values()}
    room = any(found[key].limited for key in changes)
    if again or room or states & {State.QUEUED, State.WAITING}:
        topics = {Topic.CHANGES, Topic.WORK}
    return [_holds(found, item.lease) for item in settlements], topics, after


def _holds(found: Mapping[Key, LockedJob], lease: Lease) -> bool:
    job = found.get(key_of(lease))
    return job is not None and job.status.fence == lease.fence


async def report(
    db: Any, sql: Statements, reports: Sequence[tuple[Lease, Report]], now: int
) -> tuple[list[bool], dict[Lease, int], bool]:
    """Write reports of running jobs. Returns whether each lease was current, the number of events
    added to each job, and whether there are webhook deliveries.
    """
    found = await lock(db, sql, [key_of(lease) for lease, _ in reports])
    answers = [
        _holds(found, lease) and found[key_of(lease)].status.state is State.RUNNING
        for lease, _ in reports
    ]
    said = [item for item, fits in zip(reports, answers, strict=True) if fits]
    before = {lease: found[key_of(lease)].status.last_event for lease, _ in said}
    tells = await write_reports(db, sql, said, found, now)
    await count_stale(db, sql, answers.count(False))
    added = {lease: found[key_of(lease)].status.last_event - last for lease, last in before.items()}
    return answers, added, tells


async def keep_artifact(
    db: Any, sql: Statements, lease: Lease, artifact: Artifact, content: str | None
) -> bool:
    """Record an artifact of a running job."""
    key = key_of(lease)
    job = (await lock(db, sql, [key])).get(key)
    if job is None or job.status.fence != lease.fence or job.status.state is not State.RUNNING:
        await count_stale(db, sql, 1)
        return False
    await blobs.keep_artifact(db, sql, *key, artifact, content)
    return True


async def move(
    db: Any,
    sql: Statements,
    keys: Sequence[Key],
    rule: Rule,
    now: int,
) -> tuple[int, SettleEffects]:
    """Apply a rule that needs no lease (cancel, lost, expired). Returns how many jobs changed."""
    found = await lock(db, sql, keys)
    changes = {key: rule(job.status, job.terms, now) for key, job in found.items()}
    moved = {key: change for key, change in changes.items() if change is not None}
    return len(moved), await write(db, sql, found, moved, now)


async def lock(db: Any, sql: Statements, keys: Sequence[Key]) -> dict[Key, LockedJob]:
    """Lock jobs in the order of their keys and read their status."""
    rows = await db.fetch(sql.lock_standings, *columns(sorted(set(keys)), 2))
    split = 2 + STATUS_FIELDS
    return {
        (row[0], row[1]): LockedJob(read_status(row[2:split]), Terms(*row[split:-2]), *row[-2:])
        for row in rows
    }


async def write(
    db: Any,
    sql: Statements,
    found: Mapping[Key, LockedJob],
    changes: dict[Key, Transition],
    now: int,
    results: Mapping[Key, str] = MappingProxyType({}),
) -> SettleEffects:
    """Write transitions: rows, events, webhook deliveries, results, usage. Every transition uses
    this function, except claims and the fast path of settlements (fast_claim.py).
    """
    after = SettleEffects()
    if not changes:
        return after
    rows = [
        (*key, *status_row(change.status), change.event, results.get(key))
        for key, change in changes.items()
    ]
    after.deliveries = await db.fetchval(sql.write_transitions, *in_columns(rows), now)
    await access.meter(
        db,
        sql,
        [
            moved(key[0], found[key].kind, found[key].status, change.status, now)
            for key, change in changes.items()
        ],
    )
    waited = [key for key in changes if found[key].status.state is State.WAITING]
    if waited:
        await db.execute(sql.delete_waits, *columns(waited, 2))
    for key, change in changes.items():
        state = change.status.state
        if state is State.WAITING:
            after.waiting.append(key)
        elif state.is_terminal and found[key].terms.parent is not None:
            after.ended.append(key)
        if state is State.CANCELLED:
            after.cancelled.append(key)
    if after.cancelled:
        await db.execute(sql.begin_cascades, *columns(after.cancelled, 2))
    return after


async def write_reports(
    db: Any,
    sql: Statements,
    said: Sequence[tuple[Lease, Report]],
    found: dict[Key, LockedJob],
    now: int,
) -> bool:
    """Write reports of running jobs: events, steps, children, and the last progress and phase of
    each. Updates `found`. Returns whether there are webhook deliveries.
    """
    if not said:
        return False
    steps = {
        (*key_of(lease), step.seq): step_row(*key_of(lease), step)
        for lease, what in said
        for step in what.steps
    }
    changed = set()
    if steps:
        rows = [steps[key] for key in sorted(steps)]
        changed = {tuple(row) for row in await db.fetch(sql.put_steps, *columns(rows, 16))}
        results = [
            (*key_of(lease), step.result)
            for lease, what in said
            for step in what.steps
            if step.result is not None
        ]
        await blobs.adopt(db, sql, blobs_in(results))
    children = [child for _, what in said for child in what.children]
    await submit(db, sql, children, now, in_transaction=True)
    for key, file in [(key_of(lease), file) for lease, what in said for file in what.files]:
        await blobs.keep_artifact(db, sql, *key, *file)
    jobs: dict[Key, tuple[Any, ...]] = {}
    events = []
    for lease, what in said:
        key = key_of(lease)
        entries = report_entries(what)
        for step in what.steps:
            if (*key, step.seq) in changed:
                entries.append((EventType.STEP, step_entry(step)))
        *_, progress, phase, _ = jobs.get(key, (None, None, None))
        if what.progress is not None:
            progress = encode_progress(what.progress)
        status = found[key].status
        for seq, (kind, data) in enumerate(entries, status.last_event + 1):
            events.append((*key, seq, kind, data))
        last_event = status.last_event + len(entries)
        jobs[key] = (*key, progress, what.phase or phase, last_event)
        status = status._replace(last_event=last_event, phase=what.phase or status.phase)
        found[key] = found[key]._replace(status=status)
    await db.execute(sql.write_reports, *columns(list(jobs.values()), 5))
    if events:
        await db.execute(sql.insert_events, *columns(events, 5), now)
    told = [(*place, phase_told(kind, data)) for *place, kind, data in events]
    phases = [each for each in told if each[-1] is not None]
    return bool(phases) and bool(await db.fetch(sql.tell_phases, *columns(phases, 4), now))


async def count_stale(db: Any, sql: Statements, stale: int) -> None:
    """Count writes with a stale lease."""
    if stale:
        await db.execute(sql.count_up, [STALE_WRITES], [stale])


def key_of(lease: Lease) -> Key:
    """Return the key of a lease's job."""
    return lease.tenant, lease.job_id
