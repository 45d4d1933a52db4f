"""What steps came to and what was sent to jobs, where it is too large for a row.

The protocol is that of `engine/payloads/payloads.py`: the bytes are written first, and the fenced
write of the step, or the write of the event, takes them over. From then on they are a blob of the
job like any other: deleted with it, counted in its receipt, swept where nobody came to name them.

- A handler that comes past a step again reads its result then, not all of them when it begins.
- An event that was taken is in two places, the event and the step that took it; the blob is one.
- A fork has copies of its own, so that either job can be deleted without a look at the other. They
  are made before the transaction that forks. A step that has come to an end in between would still
  be the original's: the store refuses the fork then.
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
    """Tell whether any of these has a result that is to be kept apart."""
    return any(step.result is not None and payload_store.is_large(step.result) for step in steps)


async def offload_step_results(payload_store: PayloadStore, lease: Lease, report: Report) -> Report:
    """Return a report with the results of its steps as they are kept."""
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
    """Read results that are kept apart, as long as they are not too large to be shown together."""
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
    """Copy for a fork what is kept apart of another job's history; return each copy by what it is
    a copy of.
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
