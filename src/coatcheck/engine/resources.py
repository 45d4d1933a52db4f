"""Exclusive resources: things that one running job holds, and no other job at the same time.

Examples are a server that does one thing at a time, or a GPU that fits one model. A job chooses
among several when it runs, so a limit of its kind cannot express this. A resource is a record that
names the holding job and its fence. It is held as long as that job runs under that fence, so nobody
has to release it: it becomes free when the job finishes or its worker is lost. Two jobs that want
the same resource both write the record over the version they read; one of them succeeds.

Resources that jobs of this process hold or are acquiring are remembered, and tried last. So each of
two hundred jobs with as many resources finds a free one at its first attempt.

A worker that is considered lost while it is alive uses its resource until it notices, just as it
still runs its handler.
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

# Resources belong to the server, whatever tenant a job has.
OWNER = "."
COLLECTION = "places."


class ExclusiveResources:
    """The exclusive resources of one store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._of_jobs_here: dict[tuple[str, str], Lease] = {}

    async def acquire_one(self, lease: Lease, group: str, names: Sequence[str]) -> str | None:
        """Acquire the first of these resources that is free or already held by the job.

        Return its name, or None if all are held.
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
        """Whether jobs of this process hold any."""
        return bool(self._of_jobs_here)

    def release(self, lease: Lease) -> None:
        """Forget the resources of a job that has finished in this process."""
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
