"""Checks of what a run may have watched beside jobs: deliveries, and what a purge left."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from coatcheck.testing.checker.promises import Check, Replays, Violation
from coatcheck.testing.checker.run import RunRecord

# What may still name a job that is gone: that it was, and which request it answered.
NAMES_THE_DEAD = frozenset({"tombstones", "idempotency"})


def delivered(run: RunRecord, _: Replays) -> Iterator[Violation]:
    """P7: what was owed was delivered at least once, and always under the same id."""
    if run.deliveries is None:
        return
    ids: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    owners: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for delivery in run.deliveries:
        ids[delivery.job_id, delivery.event].add(delivery.webhook_id)
        owners[delivery.webhook_id].add((delivery.job_id, delivery.event))
    for owed in sorted(run.owed_deliveries):
        if owed not in ids:
            yield Violation("P7", owed[0], f"{owed[1]} was never delivered")
    for (job_id, event), found in ids.items():
        if len(found) > 1:
            yield Violation("P7", job_id, f"{event} was delivered under {len(found)} ids")
    for webhook_id, about in owners.items():
        if len(about) > 1:
            yield Violation("P7", min(about)[0], f"id {webhook_id} stands for {sorted(about)}")


def nothing_left(run: RunRecord, _: Replays) -> Iterator[Violation]:
    """P8: of what was purged nothing is in any table but that it was."""
    for job_id in run.purged or ():
        for table, rows in run.tables.items():
            if table in NAMES_THE_DEAD:
                continue
            left = sum(any(job_id in str(value) for value in row) for row in rows)
            if left:
                yield Violation("P8", job_id, f"{left} rows of {table} still name it")


CHECKS: tuple[Check, ...] = (delivered, nothing_left)
