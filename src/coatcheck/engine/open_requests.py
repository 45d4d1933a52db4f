"""Limits on what a tenant has open at a time: requests and streams, and uploads in progress.

A waiting request, a stream and an upload cost little each, but they last. Without a limit, one
tenant can use up every file descriptor, or the memory of every upload's buffer. The counts are per
process, because the resources are. A tenant over its limit gets a 429 with a time to retry; other
tenants are not affected.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from coatcheck.descriptors import MOST_PER_TENANT, current_budget
from coatcheck.errors import TooManyOpen
from coatcheck.settings import Settings

RETRY_AFTER_S = 5


class RequestLimits(NamedTuple):
    """The limits on clients of one process."""

    # A body must arrive at this rate, in bytes per second, once the grace time has passed.
    body_min_rate: int = 1024
    body_grace_s: float = 30.0
    uploads_per_tenant: int = 32
    requests_per_tenant: int = MOST_PER_TENANT
    queues_per_tenant: int = 1000
    records_per_collection: int = 10_000


def limits_for(settings: Settings) -> RequestLimits:
    """Return the limits that follow from the settings and the file descriptors of this process."""
    return RequestLimits(
        settings.body_min_rate,
        settings.body_grace_s,
        settings.tenant_uploads,
        settings.tenant_requests or current_budget().per_tenant,
        settings.tenant_queues,
        settings.tenant_records,
    )


class TenantOpenLimit:
    """Limits how many of one resource each tenant has open."""

    def __init__(self, limit_name: str, noun: str, limit: int) -> None:
        self._limit_name = limit_name
        self._noun = noun
        self._limit = limit
        self._open: Counter[str] = Counter()

    @contextlib.contextmanager
    def hold(self, tenant: str) -> Iterator[None]:
        """Count one more while the context is open; raises TooManyOpen."""
        if self._open[tenant] >= self._limit:
            raise TooManyOpen(
                f"this tenant has {self._limit:,} {self._noun} open, which is its limit; "
                "close some of them, or come back later",
                self._limit_name,
                self._limit,
                RETRY_AFTER_S,
                None,
            )
        self._open[tenant] += 1
        try:
            yield
        finally:
            self._open[tenant] -= 1
            if not self._open[tenant]:
                del self._open[tenant]

    def count(self, tenant: str) -> int:
        """Return how many of the resource a tenant has open."""
        return self._open.get(tenant, 0)
