"""Throughput: how many jobs finished in each minute of the last hour, by queue and kind.

The numbers are for people; nothing in the engine depends on them. Each process keeps the counts of
a minute in a document of its own (store `records`) and overwrites it every few seconds. So no two
processes write the same document, and a repeated write changes nothing. The documents expire. A
crash loses the counts that were not written yet.

Only jobs that workers finished are counted. Jobs that never ran, because they were cancelled or
expired in the queue, are not.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections import defaultdict
from typing import NamedTuple

from coatcheck.clock import Clock
from coatcheck.errors import StoreError
from coatcheck.model.access import OPERATOR
from coatcheck.model.record import Record
from coatcheck.store.base import Store

log = logging.getLogger(__name__)

COLLECTION = "throughput"
MINUTE_MS = 60_000
MINUTES = 60
STATES = ("succeeded", "failed", "cancelled")
_KEPT_MS = (MINUTES + 5) * MINUTE_MS
_PAGE = 1_000

_Counts = dict[tuple[str, str], list[int]]


class FinishedCount(NamedTuple):
    """The finished jobs of a kind in a queue within the minute that starts at `minute`."""

    minute: int
    queue: str
    kind: str
    succeeded: int
    failed: int
    cancelled: int


class Throughput:
    """The counts of one process for the minutes that may still change."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._process = secrets.token_hex(6)
        self._minutes: dict[int, _Counts] = {}
        self._unwritten: set[int] = set()

    def finished(self, queue: str, kind: str, state: str) -> None:
        """Count a finished job."""
        minute = self._clock.now() // MINUTE_MS
        counts = self._minutes.setdefault(minute, {})
        if (queue, kind) not in counts:
            counts[queue, kind] = [0] * len(STATES)
        counts[queue, kind][STATES.index(state)] += 1
        self._unwritten.add(minute)

    async def flush(self) -> None:
        """Write the counts that changed since the last flush; keep those that fail for the next."""
        now = self._clock.now()
        for minute in sorted(self._unwritten):
            rows = [[*key, *counts] for key, counts in self._minutes[minute].items()]
            self._unwritten.discard(minute)
            document = Record(
                OPERATOR,
                COLLECTION,
                f"{minute:010d}.{self._process}",
                json.dumps(rows),
                0,
                now,
                minute * MINUTE_MS + _KEPT_MS,
            )
            try:
                await self._store.records.put_record(document)
            except StoreError:
                self._unwritten.add(minute)
                log.warning("throughput not written")
                break
        self._forget(now // MINUTE_MS - 1)

    async def last_hour(self) -> list[FinishedCount]:
        """Read the counts of all processes, oldest minute first."""
        await self.flush()
        now = self._clock.now()
        added: dict[tuple[int, str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        after = f"{now // MINUTE_MS - MINUTES + 1:010d}"
        while True:
            page = await self._store.records.list_records(OPERATOR, COLLECTION, now, after, _PAGE)
            for document in page:
                minute = int(document.key.partition(".")[0]) * MINUTE_MS
                for queue, kind, *counts in json.loads(document.value):
                    total = added[minute, queue, kind]
                    total[:] = [mine + more for mine, more in zip(total, counts, strict=True)]
            if len(page) < _PAGE:
                break
            after = page[-1].key
        return [FinishedCount(*key, *counts) for key, counts in sorted(added.items())]

    def _forget(self, before: int) -> None:
        """Drop minutes that are over and written, or could not be written for an hour."""
        for minute in [each for each in self._minutes if each < before]:
            if minute not in self._unwritten or minute < before - MINUTES:
                del self._minutes[minute]
                self._unwritten.discard(minute)
