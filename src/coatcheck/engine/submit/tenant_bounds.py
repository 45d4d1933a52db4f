"""Bounds on what a tenant can make up by naming it: queues, and documents of a collection.

A name that a caller chooses costs a row in every list that shows it. So a tenant's jobs use at most
so many queues beside those that the kinds declare, and a collection of documents that callers write
holds at most so many. What is there already can always be used and written again.

The queue names of a tenant are those of the jobs that are kept, read from the store when a name is
new to this process, at most once a second. Several processes together may let in a few more, as
many as the others do within that second.
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
# When to come back: jobs, and their queues with them, are removed at the end of their retention.
RETRY_AFTER_S = 60


class _KnownQueues:
    def __init__(self) -> None:
        self.names: set[str] = set()
        self.read_at = -math.inf


class QueueNameLimit:
    """Limits how many queues of their own the jobs of a tenant use."""

    def __init__(self, store: Store, declared: Collection[str], clock: Clock, limit: int) -> None:
        self._store = store
        self._declared = frozenset(declared)
        self._clock = clock
        self._limit = limit
        self._known: dict[str, _KnownQueues] = {}

    async def check(self, tenant: str, queues: Iterable[str | None]) -> None:
        """Raise QuotaExceeded if these are more queues than the tenant may use; None is the queue
        of the job's kind.
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
    """Write a document over the one of its key; raises QuotaExceeded if it is a new one, and its
    collection is full.
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
