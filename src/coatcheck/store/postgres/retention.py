"""What the sweep removes: jobs past their retention, leftovers. Each operation is bounded."""

from __future__ import annotations

from typing import Any

from coatcheck.store.postgres import blobs, webhooks
from coatcheck.store.postgres.jobs import columns
from coatcheck.store.postgres.statements import Statements

AT_ONCE = 200
USAGE_AT_ONCE = 20_000
TOMBSTONES_KEPT_MS = 7 * 86_400_000


async def delete_old(db: Any, sql: Statements, after: int, now: int) -> tuple[int, int]:
    """Remove jobs that retention has passed over, from a place on, and what else has had its time;
    return how many jobs that were, and from where to go on.
    """
    old = await db.fetch(sql.past_retention, now, AT_ONCE, after)
    if old:
        *keys, kinds, _ = columns(old, 4)
        await blobs.remove(db, sql, keys)
        await webhooks.remove(db, sql, keys)
        await remove(db, sql, keys, kinds, now)
    await db.execute(sql.delete_old_tombstones, now - TOMBSTONES_KEPT_MS, AT_ONCE)
    await db.execute(sql.delete_expired_records, now, AT_ONCE)
    await db.execute(sql.delete_expired_keys, now, AT_ONCE)
    await db.execute(sql.add_up_usage, USAGE_AT_ONCE)
    # A full hand means another round, which need not walk over what this one has deleted.
    return len(old), old[-1][3] if len(old) == AT_ONCE else 0


async def remove(
    db: Any, sql: Statements, keys: list[Any], kinds: list[str], now: int
) -> tuple[int, int, int]:
    """Delete jobs and all that belongs to them; return how many events, steps and messages that
    were.
    """
    await db.execute(sql.delete_listing, *keys, kinds)
    events = await db.execute(sql.delete_events, *keys)
    steps = await db.execute(sql.delete_steps, *keys)
    sent = await db.execute(sql.delete_messages, *keys)
    told_by_jobs = await db.fetchval(sql.delete_jobs, *keys)
    await db.execute(sql.insert_tombstones, *keys, now)
    rows, *others = (int(told.rpartition(" ")[2]) for told in (events, steps, sent))
    return rows + told_by_jobs, others[0], others[1]
