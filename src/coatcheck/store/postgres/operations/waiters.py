"""Effects of a transition on other jobs: wake jobs that wait for it, cancel its children.

They run right after the commit of the transition, in transactions of their own. In the same
transaction they would be wrong: if two children of a job finish at the same time, each would see
the other still running, and neither would wake the parent. Afterwards the later one sees both.
Waking a job locks it first, so concurrent wake-ups are serialized.

- A job that finishes is looked up in `waits`. A job that starts to wait checks itself whether its
  events have arrived already. Nothing is missed, in either order: only a process that has locked a
  job, and wakes it, deletes its rows in `waits`.
- A process may die before it has run the effects. The sweep finds jobs whose events have arrived
  (`missed_wakes`) and continues cancellations of children, which are recorded in the transaction
  that cancels the parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coatcheck.model import transition as rules
from coatcheck.model.state import State
from coatcheck.model.step import child_finished
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.postgres.operations.jobs import Key, SettleEffects, columns, lock, move, write

# How many children are cancelled with their parent at a time.
CASCADE_AT_ONCE = 200


async def wake_those_who_wait_for(db: Any, sql: Statements, ended: Sequence[Key], now: int) -> bool:
    """Wake jobs for which these were the last missing events. Returns whether any was woken."""
    came = columns([(tenant, child_finished(job_id)) for tenant, job_id in ended], 2)
    waiters = [(row[0], row[1]) for row in await db.fetch(sql.waiters, *came)]
    if not waiters:
        return False
    return await _wake(db, sql, waiters, now, sql.delete_waits_for, *came)


async def look_again(db: Any, sql: Statements, keys: Sequence[Key], now: int) -> bool:
    """Wake waiting jobs for which every event of a group has arrived."""
    return await _wake(db, sql, keys, now, sql.delete_waits_that_are_over)


async def _wake(
    db: Any, sql: Statements, keys: Sequence[Key], now: int, delete: str, *values: list[Any]
) -> bool:
    found = await lock(db, sql, keys)
    over = {tuple(row) for row in await db.fetch(delete, *columns(sorted(found), 2), *values)}
    touched = sorted({(tenant, job_id) for tenant, job_id, _ in over})
    if not touched:
        return False
    left = await db.fetch(sql.parts_with_waits, *columns(touched, 2))
    over -= {tuple(row) for row in left}
    changes = {
        (tenant, job_id): change
        for tenant, job_id, _ in sorted(over)
        if (change := rules.woken(*found[tenant, job_id][:2], now)) is not None
    }
    await write(db, sql, found, changes, now)
    return bool(changes)


async def wake_due(db: Any, sql: Statements, now: int, limit: int) -> int:
    """Wake jobs whose wait is over by the clock. Returns the number of webhook deliveries."""
    async with db.transaction():
        due = [(row[0], row[1]) for row in await db.fetch(sql.waiting_due, now, limit)]
        if due:
            found = await lock(db, sql, due)
            changes = {
                key: change
                for key, job in found.items()
                if job.status.run_at <= now and (change := rules.woken(*job[:2], now)) is not None
            }
            return (await write(db, sql, found, changes, now)).deliveries
    return 0


async def cascade(db: Any, sql: Statements, job: Key, now: int) -> tuple[bool, SettleEffects]:
    """Cancel some children of a cancelled job. Returns whether there may be more."""
    found = await lock(db, sql, [job])
    rows = await db.fetch(sql.children_to_cancel, *job, CASCADE_AT_ONCE)
    if job in found and found[job].status.state is not State.CANCELLED:
        rows = []  # the parent was resumed
    _, after = await move(db, sql, [(row[0], row[1]) for row in rows], rules.request_cancel, now)
    if len(rows) < CASCADE_AT_ONCE:
        await db.execute(sql.delete_cascades, [job[0]], [job[1]])
    return len(rows) == CASCADE_AT_ONCE, after
