"""Step results and events that are too large for a row.

The protocol is the one in `engine/payloads/payloads.py`: the bytes are written first, then the
fenced write of the step, or the write of the event, takes ownership of them. From then on they are
a blob of the job like any other. The blob is deleted with the job and counted in its receipt. The
sweep removes a blob that no step or event names.

- A replaying handler reads the result of a step when it reaches that step, not all results at the
  start.
- A received event is recorded twice, as the event and in the step that received it. Both refer to
  the same blob.
- A fork gets its own copies, so either job can be deleted without checking the other. The copies
  are made before the transaction that forks. A step that finishes in between would still refer to
  the original's blob, so the store rejects the fork in that case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from coatcheck.engine.payloads.payloads import MAX_INLINE_RESULT
from coatcheck.model.payload import is_reference, read_reference, write_reference

if TYPE_CHECKING:
    from coatcheck.engine.payloads.payloads import PayloadStore
    from coatcheck.model.job import JobInsert, Lease
    from coatcheck.model.step import SentEvent, Step
    from coatcheck.store.base import Report


def has_large_results(payload_store: PayloadStore, steps: Sequence[Step]) -> bool:
    """Return whether any of these steps has a result that must be offloaded."""
    return any(step.result is not None and payload_store.is_large(step.result) for step in steps)


async def offload_step_results(payload_store: PayloadStore, lease: Lease, report: Report) -> Report:
    """Return a report with the large results of its steps offloaded."""
    if not has_large_results(payload_store, report.steps):
        return report
    kept = []
    for step in report.steps:
        if step.result is not None and payload_store.is_large(step.result):
            result = await payload_store.offload(lease.tenant, lease.job_id, step.result)
            kept.append(replace(step, result=result))
        else:
            kept.append(step)
    return report._replace(steps=tuple(kept))


async def with_step_results(payload_store: PayloadStore, steps: Sequence[Step]) -> list[Step]:
    """Load offloaded step results until their total size exceeds the limit for inline results."""
    left = MAX_INLINE_RESULT
    shown = []
    for step in steps:
        if step.result is not None and is_reference(step.result):
            left -= read_reference(step.result).size
            if left >= 0:
                shown.append(replace(step, result=await payload_store.read(step.result)))
                continue
        shown.append(step)
    return shown


async def copy_large_payloads(
    payload_store: PayloadStore,
    job: JobInsert,
    steps: Sequence[Step],
    messages: Sequence[SentEvent],
) -> dict[str, str]:
    """Copy the offloaded payloads of another job's history for a fork.

    Return each copy's reference by the reference of its original.
    """
    results = [step.result for step in steps if step.result is not None]
    there = dict.fromkeys([*results, *(message.data for message in messages)])
    copies = {}
    for original in filter(is_reference, there):
        blob = read_reference(original)
        pieces = await payload_store.stream(blob)
        copy = await payload_store.put(job.tenant, job.id, pieces, blob.size)
        copies[original] = write_reference(copy)
    return copies
