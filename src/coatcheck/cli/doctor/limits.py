"""The limits on what clients can take up: file descriptors, connections, what a tenant has open."""

from __future__ import annotations

from collections.abc import Iterator

from coatcheck.cli.doctor.findings import Finding, ok, warning
from coatcheck.descriptors import DescriptorBudget, reachable_limit
from coatcheck.settings import Settings

AREA = "limits"
# With fewer, a few hundred clients that wait take all connections.
FEW = 4096


def check_limits(settings: Settings) -> Iterator[Finding]:
    """Say how many descriptors a server started here has, and how they are shared out."""
    budget = DescriptorBudget(reachable_limit())
    said = (
        f"{budget.limit:,} file descriptors: {budget.connections:,} connections, "
        f"{budget.reserve:,} kept in reserve"
    )
    if budget.limit < FEW:
        yield warning(AREA, said, f"raise the hard limit to {FEW:,} or more (ulimit -Hn)")
    else:
        yield ok(AREA, said)
    requests = settings.tenant_requests or budget.per_tenant
    said = f"each tenant: {requests:,} open requests, {settings.tenant_uploads:,} uploads"
    if requests > budget.connections:
        advice = f"set tenant_requests to less than {budget.connections:,}: one tenant can take all"
        yield warning(AREA, said, advice)
    else:
        yield ok(AREA, said)
