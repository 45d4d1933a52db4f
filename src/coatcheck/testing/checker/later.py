"""Checks for webhook deliveries and for traces of purged jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from coatcheck.testing.checker.promises import Check, Replays, Violation
from coatcheck.testing.checker.run import RunRecord

# Tables that may still name a purged job: its tombstone and its idempotency key.
NAMES_THE_DEAD = frozenset({"tombstones", "idempotency"})


def delivered(run: RunRecord, _: Replays) -> Iterator[Violation]:
    """Check P7: every owed delivery arrived at least once, always with the same id."""
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
    """Check P8: only the tables in `NAMES_THE_DEAD` may name a purged job."""
    for job_id in run.purged or ():
        for table, rows in run.tables.items():
            if table in NAMES_THE_DEAD:
                continue
            left = sum(any(job_id in str(value) for value in row) for row in rows)
            if left:
                yield Violation("P8", job_id, f"{left} rows of {table} still name it")


CHECKS: tuple[Check, ...] = (delivered, nothing_left)
