"""Reading logs: those who ask for the same page of one job's log at the same time share a read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from coatcheck.model.event import JobEvent
from coatcheck.store.base import Store

Page = tuple[str, str, int, int]  # tenant, job, the event before it, its length


class EventReader:
    """The reads of one process that are under way."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reading: dict[Page, asyncio.Task[Sequence[JobEvent]]] = {}

    async def read(self, tenant: str, job_id: str, after: int, limit: int) -> Sequence[JobEvent]:
        """Read a page of a log."""
        page = (tenant, job_id, after, limit)
        task = self._reading.get(page)
        if task is None:
            task = asyncio.ensure_future(self._read(page))
            self._reading[page] = task
            task.add_done_callback(lambda _: self._reading.pop(page, None))
        # One reader that goes away takes nothing from the others.
        return await asyncio.shield(task)

    async def _read(self, page: Page) -> Sequence[JobEvent]:
        return await self._store.jobs.list_events(*page)
