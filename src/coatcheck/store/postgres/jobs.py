"""The write operations on jobs, each for a whole batch inside one transaction.

They do what the SQLite store's do, for many jobs at a time: lock and read where the jobs stand, ask
`coatcheck.model.transition` what becomes of them, write that and the events together. Nothing here
decides anything. Each returns, beside its answer, whom to wake once the transaction is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import asyncpg

from coatcheck.model import transition as rules
from coatcheck.model.artifact import Artifact
from coatcheck.model.job import Lease, NewJob, Terms
from coatcheck.model.outcome import Succeeded
from coatcheck.model.payload import BlobName, blobs_in
from coatcheck.model.state import State
from coatcheck.model.transition import Standing, Transition
from coatcheck.store.base import Report, Settlement, Topic
from coatcheck.store.postgres import blobs
from coatcheck.store.postgres.statements import Statements
from coatcheck.store.postgres.transport import as_texts, in_columns
from coatcheck.store.rows import (
    NEW_JOB_COLUMNS,
    STANDING_FIELDS,
    encode_progress,
    new_job_row,
    read_standing,
    report_entries,
    standing_row,
)

STALE_WRITES = "stale_writes"
# Columns that are never NULL and name no job: where all values are the same, one is sent.
_NULLABLE = {"public_id", "limit_key", "correlation_id", "traceparent", "deadline_at", "phase"}
_NULLABLE |= {"reason", "worker", "started_at", "finished_at", "expires_at", "error"}
SENT_ONCE = [
    number
    for number, name in enumerate(NEW_JOB_COLUMNS)
    if name not in _NULLABLE and name not in ("tenant", "id")
]

Key = tuple[str, str]


class Found(NamedTuple):
    """A locked job."""

    standing: Standing
    terms: Terms


def columns(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Turn rows into one array a column, which is how many rows go into one statement."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * width


async def submit(
    db: Any, sql: Statements, new: Sequence[NewJob], now: int, *, in_transaction: bool = False
) -> None:
    """Insert jobs; ids that are there already are left as they are. Those with blobs must be in a
    transaction.
    """
    if not new:
        return
    # The first of those with one id, as if they had come one after another.
    rows = {(job.tenant, job.id): job for job in reversed(new)}
    values = new_job_columns(list(reversed(rows.values())), now)
    guarded = sql.submit.replace("/* already there */", "ON CONFLICT (tenant, id) DO NOTHING")
    if in_transaction:  # which an error would end
        await db.execute(guarded, *values)
        await blobs.adopt(db, sql, blobs_of(new))
        return
    try:
        await db.execute(sql.submit, *values)
    except asyncpg.UniqueViolationError:
        # Rare, and dear to guard against: see which ids are there, and leave those alone.
        await db.execute(guarded, *values)


def blobs_of(new: Sequence[NewJob]) -> list[BlobName]:
    """Return the blobs that hold the inputs of jobs."""
    return blobs_in((job.tenant, job.id, job.input) for job in new)


def new_job_columns(new: Sequence[NewJob], now: int) -> list[Any]:
    """Lay new jobs out as `submit` takes them."""
    # Most jobs of a batch are due at one time, and all that are begin in the same way.
    beginnings = {run_at: rules.created(run_at, now) for run_at in {job.run_at for job in new}}
    [event] = {beginning.event for beginning in beginnings.values()}
    rows = [(*new_job_row(job, beginnings[job.run_at].standing), job.input) for job in new]
    return [*as_texts(list(zip(*rows, strict=True)), SENT_ONCE), now, event]


async def settle(
    db: Any, sql: Statements, settlements: Sequence[Settlement], now: int
) -> tuple[list[bool], set[Topic]]:
    """End attempts, each if its lease is still the newest."""
    found = await lock(db, sql, [key_of(item.lease) for item in settlements])
    answers, stale = [], 0
    said: list[tuple[Lease, Report, Standing]] = []
    changes: dict[Key, Transition] = {}
    results: dict[Key, str] = {}
    for lease, outcome, report in settlements:
        key = key_of(lease)
        job = found.get(key)
        if job is None or job.standing.fence != lease.fence:
            stale += 1
            answers.append(False)
            continue
        answers.append(True)
        standing = job.standing
        if standing.state is not State.RUNNING:
            continue  # settled by this very lease, whose answer never arrived
        if report is not None:
            said.append((lease, report, standing))
            standing = standing._replace(last_event=standing.last_event + entries_in(report))
        changes[key] = rules.settled(standing, job.terms, outcome, now)
        found[key] = Found(changes[key].standing, job.terms)
        if isinstance(outcome, Succeeded):
            results[key] = outcome.result
    await write_reports(db, sql, said, now)
    await write(db, sql, changes, now, results)
    await blobs.adopt(db, sql, blobs_in((*key, result) for key, result in results.items()))
    await count_stale(db, sql, stale)
    # What an earlier try of ours has settled was perhaps never told to anybody: then tell it all.
    again = answers.count(True) > len(changes)
    topics = {Topic.CHANGES} if changes else set()
    if again or any(change.standing.state is State.QUEUED for change in changes.values()):
        topics = {Topic.CHANGES, Topic.WORK}
    return answers, topics


async def report(
    db: Any, sql: Statements, reports: Sequence[tuple[Lease, Report]], now: int
) -> list[bool]:
    """Write progress, phase and log entries of running jobs."""
    found = await lock(db, sql, [key_of(lease) for lease, _ in reports])
    answers = []
    said: list[tuple[Lease, Report, Standing]] = []
    for lease, what in reports:
        key = key_of(lease)
        job = found.get(key)
        fits = (
            job is not None
            and job.standing.fence == lease.fence
            and job.standing.state is State.RUNNING
        )
        answers.append(fits)
        if fits and job is not None:
            said.append((lease, what, job.standing))
            last_event = job.standing.last_event + entries_in(what)
            found[key] = Found(job.standing._replace(last_event=last_event), job.terms)
    await write_reports(db, sql, said, now)
    await count_stale(db, sql, answers.count(False))
    return answers


async def keep_artifact(db: Any, sql: Statements, lease: Lease, artifact: Artifact) -> bool:
    """Name a file of a running job."""
    key = key_of(lease)
    job = (await lock(db, sql, [key])).get(key)
    if job is None or job.standing.fence != lease.fence or job.standing.state is not State.RUNNING:
        await count_stale(db, sql, 1)
        return False
    await blobs.keep_artifact(db, sql, *key, artifact)
    return True


async def move(
    db: Any,
    sql: Statements,
    keys: Sequence[Key],
    rule: Callable[[Standing, Terms, int], Transition | None],
    now: int,
) -> int:
    """Apply a rule that needs no lease (cancel, lost, expired) to jobs; return how many moved."""
    found = await lock(db, sql, keys)
    changes = {key: rule(job.standing, job.terms, now) for key, job in found.items()}
    moved = {key: change for key, change in changes.items() if change is not None}
    await write(db, sql, moved, now)
    return len(moved)


async def lock(db: Any, sql: Statements, keys: Sequence[Key]) -> dict[Key, Found]:
    """Lock jobs in the order of their keys and read where they stand."""
    rows = await db.fetch(sql.lock_standings, *columns(sorted(set(keys)), 2))
    split = 2 + STANDING_FIELDS
    return {
        (row[0], row[1]): Found(read_standing(row[2:split]), Terms(*row[split:])) for row in rows
    }


async def write(
    db: Any,
    sql: Statements,
    changes: dict[Key, Transition],
    now: int,
    results: Mapping[Key, str] = MappingProxyType({}),
) -> None:
    """Write transitions: rows, events, results. Every transition of a job comes through here."""
    if changes:
        rows = [
            (*key, *standing_row(change.standing), change.event, results.get(key))
            for key, change in changes.items()
        ]
        await db.execute(sql.write_transitions, *in_columns(rows), now)


async def write_reports(
    db: Any, sql: Statements, said: Sequence[tuple[Lease, Report, Standing]], now: int
) -> None:
    """Write what running jobs said: their log entries, and the last progress and phase of each."""
    jobs: dict[Key, tuple[Any, ...]] = {}
    events = []
    for lease, what, standing in said:
        key = key_of(lease)
        entries = report_entries(what)
        *_, progress, phase, _ = jobs.get(key, (None, None, None))
        if what.progress is not None:
            progress = encode_progress(what.progress)
        for seq, (kind, data) in enumerate(entries, standing.last_event + 1):
            events.append((*key, seq, kind, data))
        last_event = standing.last_event + len(entries)
        jobs[key] = (*key, progress, what.phase or phase, last_event)
    if jobs:
        await db.execute(sql.write_reports, *columns(list(jobs.values()), 5))
    if events:
        await db.execute(sql.insert_events, *columns(events, 5), now)


async def count_stale(db: Any, sql: Statements, stale: int) -> None:
    """Count writes that came too late."""
    if stale:
        await db.execute(sql.count_up, [STALE_WRITES], [stale])


def entries_in(report: Report) -> int:
    """Return how many events a report makes."""
    return len(report_entries(report))


def key_of(lease: Lease) -> Key:
    """Return what names a lease's job."""
    return lease.tenant, lease.job_id
