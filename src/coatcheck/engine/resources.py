"""Places: things of which a running job has one, and no other job has it meanwhile.

A target that does one job at a time, a card that fits one model: which of several a job uses is
decided when it runs, so no limit of its kind can say it. A place is a record. It names the job that
has it and the fence under which that job runs, and is taken as long as that job runs under that
fence. So nobody has to give a place back: it is free when the job ends, and when it is taken from a
worker that is gone. Two that want the same place both write the record over the version they read,
and one of them does. What jobs of this process have, or are about to have, is remembered until they
end: it is asked for last, so that of two hundred jobs at as many places each finds its own at once.

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


class ExclusiveResources:
    """The places of one store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._of_jobs_here: dict[tuple[str, str], Lease] = {}

    async def acquire_one(self, lease: Lease, group: str, names: Sequence[str]) -> str | None:
        """Take the first of these places that is free, or that the job has already, and return its
        name; None when all are taken.
        """
        collection, here = COLLECTION + group, self._of_jobs_here
        for is_last_resort in (False, True):
            for name in names:
                place = (collection, name)
                is_anothers = here.get(place, lease) != lease
                if is_anothers is is_last_resort and await self._try(lease, place):
                    return name
        return None

    @property
    def in_use(self) -> bool:
        """Whether jobs of this process have any."""
        return bool(self._of_jobs_here)

    def release(self, lease: Lease) -> None:
        """Forget what a job had that has ended here."""
        for place, holder in list(self._of_jobs_here.items()):  # another thread may add to it
            if holder == lease:
                del self._of_jobs_here[place]

    async def _try(self, lease: Lease, place: tuple[str, str]) -> bool:
        here = self._of_jobs_here
        before = here.get(place)
        here[place] = lease
        if await self._take(lease, *place):
            return True
        if before is None:
            here.pop(place, None)
        else:
            here[place] = before
        return False

    async def _take(self, lease: Lease, collection: str, name: str) -> bool:
        now = self._clock.now()
        there = await self._store.records.get_record(OWNER, collection, name, now)
        if there is not None:
            holder = Lease(*json.loads(there.value))
            if holder == lease:
                return True
            if await self._is_running(holder):
                return False
        version = 0 if there is None else there.version
        record = Record(OWNER, collection, name, json.dumps(lease), 0, now)
        return await self._store.records.put_record(record, version) is not None

    async def _is_running(self, holder: Lease) -> bool:
        try:
            job = await self._store.jobs.get(holder.tenant, holder.job_id)
        except NotFound:
            return False
        return job.state is State.RUNNING and job.fence == holder.fence
