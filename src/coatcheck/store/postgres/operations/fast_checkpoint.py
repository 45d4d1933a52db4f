"""Record steps in one round trip, for jobs that are unchanged since this store last wrote them.

A handler waits until each of its steps is written, so the round trip is most of the cost of a step.
As with settling (see `fast_claim.py`), the store remembers the status of the jobs it handed out,
and writes only if the rows are still the same. If one job of a batch has changed, nothing is
written, and the whole batch takes the careful path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coatcheck.model.job import Lease
from coatcheck.model.payload import is_reference
from coatcheck.store.base import Report
from coatcheck.store.postgres.claims.fast_claim import ClaimedRows
from coatcheck.store.postgres.database.column_encoding import in_columns
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.postgres.operations.jobs import columns
from coatcheck.store.shared.rows import step_entry, step_row

Said = Sequence[tuple[Lease, Report]]


def lay_out_step(handed: ClaimedRows, said: Said) -> list[Any] | None:
    """Return the values for `record_one_as_claimed`, or None unless it is one step of one job."""
    if len(said) != 1 or len(said[0][1].steps) != 1:
        return None
    lease, report = said[0]
    [step] = report.steps
    last_event = handed.last_event(lease)
    if last_event is None or report != Report(steps=report.steps):
        return None
    if step.result and is_reference(step.result):
        return None
    row = step_row(lease.tenant, lease.job_id, step)
    return [*row, step_entry(step), lease.fence, last_event]


def lay_out_steps(handed: ClaimedRows, said: Said) -> list[Any] | None:
    """Return the values for `record_as_claimed`, or None if a report has anything but steps or its
    job is not remembered.
    """
    jobs: dict[tuple[str, str], tuple[Any, ...]] = {}
    steps: dict[tuple[str, str, int], tuple[Any, ...]] = {}
    for lease, report in said:
        key = (lease.tenant, lease.job_id)
        last_event = handed.last_event(lease)
        if last_event is None or key in jobs or report != Report(steps=report.steps):
            return None
        jobs[key] = (*key, lease.fence, last_event)
        for step in report.steps:
            if (*key, step.seq) in steps or (step.result and is_reference(step.result)):
                return None
            entry = (len(steps), step_entry(step))
            steps[*key, step.seq] = (*step_row(*key, step), *entry)
    if not steps:
        return None
    in_order = [jobs[key] for key in sorted(jobs)]
    return [*in_columns([steps[key] for key in sorted(steps)]), *columns(in_order, 4)]


async def record_one_as_claimed(
    db: Any, sql: Statements, laid_out: list[Any], said: Said, now: int
) -> dict[Lease, int] | None:
    """Record one step of one job; see `record_as_claimed`."""
    written = await db.fetchval(sql.record_one_as_claimed, *laid_out, now)
    return None if written is None else {said[0][0]: 1}


async def record_as_claimed(
    db: Any, sql: Statements, laid_out: list[Any], said: Said, now: int
) -> dict[Lease, int] | None:
    """Record steps of unchanged jobs. Returns the number of events added to each, or None if any
    job has changed.
    """
    rows = await db.fetch(sql.record_as_claimed, *laid_out, now)
    added = {(row[0], row[1]): row[2] for row in rows}
    if not added:
        return None
    return {lease: added.get((lease.tenant, lease.job_id), 0) for lease, _ in said}
