"""Commands of users on existing jobs, each inside one transaction: send, resume, fork, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coatcheck.errors import Conflict, Gone, InputGone, KeyReused
from coatcheck.model import transition as rules
from coatcheck.model.job import Job, JobInsert
from coatcheck.model.payload import blobs_in, is_same
from coatcheck.model.state import State
from coatcheck.store.base import DeletedJob
from coatcheck.store.postgres import webhooks
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.postgres.operations import blobs, waiters
from coatcheck.store.postgres.operations import jobs as job_operations
from coatcheck.store.postgres.operations.jobs import Key


async def send(
    db: Any, sql: Statements, job: Key, name: str, data: str, now: int, key: str | None, most: int
) -> None:
    """Store an event for a job, and wake the job if it waits for it."""
    found = await job_operations.lock(db, sql, [job])
    if job not in found:
        raise Gone(f"job {job[1]} is gone: somebody has deleted it")
    sent = None
    if key is not None:
        sent = await db.fetchrow(sql.message_with_key, *job, key)
    if sent is not None:
        if sent["name"] != name or not is_same(sent["data"], data):
            raise KeyReused("this idempotency key was used for another event")
        return
    state = found[job].status.state
    if state.is_terminal:
        raise Conflict(f"job {job[1]} is {state}: nobody will wait for an event any more")
    if await db.fetchval(sql.count_messages, *job) >= most:
        raise Conflict(f"job {job[1]} has {most:,} events already, and takes no more")
    await db.execute(sql.insert_message, *job, name, data, now, key)
    await blobs.adopt(db, sql, blobs_in([(*job, data)]))
    await waiters.look_again(db, sql, [job], now)


async def resume(db: Any, sql: Statements, job: Key, now: int) -> Any:
    """Queue a failed or cancelled job again and return its row, or None if it is gone."""
    moved, _ = await job_operations.move(db, sql, [job], rules.resumed, now)
    if moved:
        if await db.fetchval(sql.input_of, *job) == "":
            raise InputGone(f"the input of job {job[1]} is gone: it cannot go on")
        await db.execute(sql.drop_passed_deadline, *job, now)
        await db.execute(sql.delete_cascades, [job[0]], [job[1]])
    return await db.fetchrow(sql.job_by_id, *job)


async def fork(
    db: Any,
    sql: Statements,
    source: str,
    before: int,
    job: JobInsert,
    now: int,
    copies: Mapping[str, str],
) -> None:
    """Insert a job with steps of another. A job with the same id is left unchanged."""
    key = (job.tenant, job.id)
    if key not in await job_operations.lock(db, sql, [key]):
        # Lock the source: its steps and the events they consumed are read one after the other.
        await db.execute(sql.hold, job.tenant, source)
        await job_operations.submit(db, sql, [job], now, in_transaction=True, fence=1)
        await db.execute(sql.copy_steps, job.id, job.tenant, source, before)
        await db.execute(sql.copy_taken_messages, job.id, job.tenant, source)
        await blobs.take_copies(db, sql, source, job, copies)


async def delete(db: Any, sql: Statements, job: Job, now: int) -> DeletedJob:
    """Delete a finished job."""
    row = await db.fetchrow(sql.lock_for_removal, job.tenant, job.id)
    if row is None:
        raise Gone(f"job {job.id} is gone: somebody else has deleted it")
    state, payloads = row
    if not State(state).is_terminal:
        raise Conflict(f"job {job.id} is {state}: only a job that has ended is deleted")
    keys = [[job.tenant], [job.id]]
    files = await blobs.remove(db, sql, keys)
    deliveries = await webhooks.delete_job_deliveries(db, sql, keys)
    events, steps, sent = await remove(db, sql, keys, [job.kind], now)
    return DeletedJob(job.id, payloads, events, steps, *files, sent, deliveries)


async def remove(
    db: Any, sql: Statements, keys: list[Any], kinds: list[str], now: int
) -> tuple[int, int, int]:
    """Delete the rows of jobs and leave tombstones. Returns the number of events, steps and sent
    events.
    """
    await db.execute(sql.delete_listing, *keys, kinds)
    events = await db.execute(sql.delete_events, *keys)
    steps = await db.execute(sql.delete_steps, *keys)
    sent = await db.execute(sql.delete_messages, *keys)
    events_in_jobs = await db.fetchval(sql.delete_jobs, *keys)
    await db.execute(sql.insert_tombstones, *keys, now)
    rows, *others = (int(tag.rpartition(" ")[2]) for tag in (events, steps, sent))
    return rows + events_in_jobs, others[0], others[1]
