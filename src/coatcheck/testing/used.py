"""Usage computed from job logs, independently of any store."""

from __future__ import annotations

from collections.abc import Iterable

from coatcheck.model.usage import Usage, hour_of
from coatcheck.testing.expected import ENDED, ExpectedJob

_Bill = dict[tuple[str, str, int], Usage]


def usage_in(jobs: Iterable[ExpectedJob]) -> _Bill:
    """Add up the usage of jobs by tenant, kind and hour."""
    bill: _Bill = {}
    for job in jobs:
        tenant, kind = job.new.tenant, job.new.kind
        before, began = "", 0
        for _, at, state in job.log:
            if state is None:
                continue
            used = Usage(tenant, kind, hour_of(at))
            if not before:
                used = used._replace(submitted=1, input_bytes=len(job.new.input.encode()))
            if before == "running" and state != "running":
                used = used._replace(runs=1, run_ms=at - began)
            if state in ENDED:
                used = used._replace(
                    succeeded=int(state == "succeeded"),
                    failed=int(state == "failed"),
                    cancelled=int(state == "cancelled"),
                )
            began = at if state == "running" and before != "running" else began
            before = state
            key = (tenant, kind, hour_of(at))
            bill[key] = bill[key].plus(used) if key in bill else used
    return {key: used for key, used in bill.items() if any(used[3:])}
