"""Limits on names that a tenant can create: queues, and documents of a collection.

A name that a caller chooses costs a row in every list that shows it. So a tenant's jobs may use a
limited number of queues besides those that the kinds declare, and a collection of documents that
callers write has a limited size. Existing names can always be used and written again.

The queue names of a tenant are those of its stored jobs. They are read from the store if a name is
new to this process, at most once a second. Several processes together may accept a few more names:
as many as the others accept within that second.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from coatcheck.clock import Clock
from coatcheck.errors import QuotaExceeded
from coatcheck.model.audit import AuditEntry
from coatcheck.model.record import Record
from coatcheck.store.base import Store

FRESH_S = 1.0
# The retry time: jobs, and their queues with them, are removed at the end of their retention.
RETRY_AFTER_S = 60


class _KnownQueues:
    def __init__(self) -> None:
        self.names: set[str] = set()
        self.read_at = -math.inf


class QueueNameLimit:
    """Limits how many undeclared queues the jobs of a tenant use."""

    def __init__(self, store: Store, declared: Collection[str], clock: Clock, limit: int) -> None:
        self._store = store
        self._declared = frozenset(declared)
        self._clock = clock
        self._limit = limit
        self._known: dict[str, _KnownQueues] = {}

    async def check(self, tenant: str, queues: Iterable[str | None]) -> None:
        """Raise QuotaExceeded if the tenant may not use this many queues.

        None stands for the queue of the job's kind.
        """
        asked = {name for name in queues if name is not None} - self._declared
        if not asked:
            return
        known = self._known.setdefault(tenant, _KnownQueues())
        if asked <= known.names:
            return
        now = self._clock.monotonic()
        if now - known.read_at >= FRESH_S:
            known.read_at = now
            found = await self._store.queues.list_queue_names(
                tenant, self._limit + len(self._declared)
            )
            known.names = set(found) - self._declared
        if len(known.names | asked) > self._limit:
            raise _too_many("queue_names", "queues of its own", self._limit)
        known.names |= asked


async def put_bounded(
    store: Store, record: Record, limit: int, *, audit: AuditEntry | None = None
) -> Record:
    """Write a document under its key, replacing any existing one.

    Raises QuotaExceeded if the document is new and its collection is full.
    """
    tenant, collection, now = record.tenant, record.collection, record.updated_at
    is_new = await store.records.get_record(tenant, collection, record.key, now) is None
    if is_new and await store.records.count_records(tenant, collection, now, limit) >= limit:
        raise _too_many(collection, f"documents of the collection {collection!r}", limit)
    written = await store.records.put_record(record, audit=audit)
    assert written is not None, "no version was asked for"
    return written


def _too_many(quota: str, noun: str, limit: int) -> QuotaExceeded:
    words = f"this tenant has {limit:,} {noun}, which is its limit; use or remove one of them"
    return QuotaExceeded(words, quota, limit, RETRY_AFTER_S, None)
