"""Places: things of which a running job has one, and no other job has it meanwhile.

A target that does one job at a time, a card that fits one model: which of several a job uses is
decided when it runs, so no limit of its kind can say it. A place is a record. It names the job that
has it and the fence under which that job runs, and is taken as long as that job runs under that
fence. So nobody has to give a place back: it is free when the job ends, and when it is taken from a
worker that is gone. Two that want the same place both write the record over the version they read,
and one of them does.

A worker that is called lost while it lives still uses its place for the moment until it notices,
as it still runs its handler: what it has cannot be taken from outside.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from coatcheck.clock import Clock
from coatcheck.errors import NotFound
from coatcheck.model.job import Lease
from coatcheck.model.record import Record
from coatcheck.model.state import State
from coatcheck.store.base import Store

# They are the server's, whoever the jobs are of.
OWNER = "."
COLLECTION = "places."


class Places:
    """The places of one store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def take(self, lease: Lease, group: str, names: Sequence[str]) -> str | None:
        """Take the first of these places that is free, or that the job has already, and return its
        name; None when all are taken.
        """
        for name in names:
            if await self._take(lease, COLLECTION + group, name):
                return name
        return None

    async def _take(self, lease: Lease, collection: str, name: str) -> bool:
        now = self._clock.now()
        there = await self._store.get_record(OWNER, collection, name, now)
        if there is not None:
            holder = Lease(*json.loads(there.value))
            if holder == lease:
                return True
            if await self._is_running(holder):
                return False
        version = 0 if there is None else there.version
        record = Record(OWNER, collection, name, json.dumps(lease), 0, now)
        return await self._store.put_record(record, version) is not None

    async def _is_running(self, holder: Lease) -> bool:
        try:
            job = await self._store.get(holder.tenant, holder.job_id)
        except NotFound:
            return False
        return job.state is State.RUNNING and job.fence == holder.fence
