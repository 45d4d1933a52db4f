"""How many jobs have ended in each minute of the last hour, by queue and kind.

For people who look: nothing in the engine depends on it. Each process keeps the counts of a minute
as a document of its own (store `records`), written over every few seconds with what it has counted
by then, so no two processes write the same one and a write that is repeated changes nothing. The
documents expire by themselves. A crash loses what was not written yet.

What is counted is how workers ended jobs. Jobs that nobody ran, because they were cancelled or
expired in the queue, are not in it.
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
    """How many jobs of a kind ended in a queue, within the minute that began then."""

    minute: int
    queue: str
    kind: str
    succeeded: int
    failed: int
    cancelled: int


class Throughput:
    """What one process has counted of the minutes that are not written for good."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._process = secrets.token_hex(6)
        self._minutes: dict[int, _Counts] = {}
        self._unwritten: set[int] = set()

    def finished(self, queue: str, kind: str, state: str) -> None:
        """Count a job that has ended."""
        minute = self._clock.now() // MINUTE_MS
        counts = self._minutes.setdefault(minute, {})
        if (queue, kind) not in counts:
            counts[queue, kind] = [0] * len(STATES)
        counts[queue, kind][STATES.index(state)] += 1
        self._unwritten.add(minute)

    async def flush(self) -> None:
        """Write what was counted since the last time; what cannot be written is tried again."""
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
                log.warning("the counts of a minute could not be written")
                break
        self._forget(now // MINUTE_MS - 1)

    async def last_hour(self) -> list[FinishedCount]:
        """Read what all processes have counted, the oldest minute first."""
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
        """Drop what is over and written, and what could not be written for an hour."""
        for minute in [each for each in self._minutes if each < before]:
            if minute not in self._unwritten or minute < before - MINUTES:
                del self._minutes[minute]
                self._unwritten.discard(minute)
