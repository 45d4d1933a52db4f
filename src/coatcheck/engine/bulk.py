"""Bulk operations: resume, cancel or delete the jobs that match a filter.

Jobs are listed page by page, newest first, and each page is processed a few jobs at a time. One
call looks at a bounded number of jobs and returns where the next call starts, so a caller sees
progress. Each job is changed in its own transaction: after a crash, some jobs are done and the
others are untouched. With `dry_run` the jobs are only counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from coatcheck.clock import Clock
from coatcheck.errors import Conflict, InputGone, InvalidInput, NotFound
from coatcheck.model.job import Job
from coatcheck.model.state import State
from coatcheck.store.base import JobFilter, Store

# The jobs that one call looks at, and the jobs that it changes at a time.
MAX_JOBS = 1_000
PAGE = 200
CONCURRENCY = 50

CANCELLABLE = (State.QUEUED, State.RUNNING, State.WAITING)
DELETABLE = (State.SUCCEEDED, State.FAILED, State.CANCELLED)
RESUMABLE = (State.FAILED, State.CANCELLED)

# Changes a job by its id; returns whether it did.
Operation = Callable[[str], Awaitable[bool]]
# Selects jobs among those that match a filter, such as those that the caller may read.
Only = Callable[[Job], bool]


def match_all(_job: Job) -> bool:
    """Select every job that matches the filter."""
    return True


class BulkResult(NamedTuple):
    """The number of changed jobs, and the last job examined if there may be more."""

    jobs: int
    last: str | None


class Resumed(NamedTuple):
    """A job, and whether the call resumed it."""

    job: Job
    changed: bool


async def resume_job(store: Store, tenant: str, job_id: str, now: int) -> Resumed:
    """Queue a failed or cancelled job again; leave any other job as it is."""
    before = await store.jobs.get(tenant, job_id)
    job = await store.jobs.resume(tenant, before.id, now)
    return Resumed(job, before.state in RESUMABLE)


class BulkOperations:
    """Operations on all jobs that match a filter."""

    def __init__(self, store: Store, clock: Clock, erase: Callable[[], Awaitable[bool]]) -> None:
        self._store = store
        self._clock = clock
        self._erase = erase

    async def resume(self, which: JobFilter, only: Only, *, dry_run: bool) -> BulkResult:
        """Resume failed or cancelled jobs."""
        if which.state not in RESUMABLE:
            raise InvalidInput("only failed or cancelled jobs can be resumed")

        async def resume(job_id: str) -> bool:
            try:
                now = self._clock.now()
                return (await resume_job(self._store, which.tenant, job_id, now)).changed
            except (NotFound, InputGone):
                return False  # the job or its input was deleted since

        return await self._for_each(which, only, resume, dry_run=dry_run)

    async def cancel(self, which: JobFilter, only: Only, *, dry_run: bool) -> BulkResult:
        """Cancel unfinished jobs."""
        if which.state not in CANCELLABLE:
            raise InvalidInput("only jobs that have not finished can be cancelled")

        async def cancel(job_id: str) -> bool:
            try:
                job = await self._store.jobs.cancel(which.tenant, job_id, self._clock.now())
            except NotFound:
                return False
            return job.state is State.CANCELLED or job.cancel_requested

        return await self._for_each(which, only, cancel, dry_run=dry_run)

    async def delete(self, which: JobFilter, only: Only, *, dry_run: bool) -> BulkResult:
        """Delete finished jobs; erase their bytes once, at the end."""
        if which.state not in DELETABLE:
            raise InvalidInput("only finished jobs can be deleted")

        async def delete(job_id: str) -> bool:
            try:
                await self._store.jobs.delete(which.tenant, job_id, self._clock.now())
            except (NotFound, Conflict):
                return False  # deleted or resumed since
            return True

        result = await self._for_each(which, only, delete, dry_run=dry_run)
        if result.jobs and not dry_run:
            await self._erase()
        return result

    async def _for_each(
        self, which: JobFilter, only: Only, operation: Operation, *, dry_run: bool
    ) -> BulkResult:
        """Apply an operation to the newest matching jobs, at most `which.limit`."""
        done, left = 0, min(which.limit, MAX_JOBS)
        while left:
            size = min(PAGE, left)
            found = await self._store.jobs.list_jobs(which._replace(limit=size))
            ids = [job.id for job in found if only(job)]
            done += len(ids) if dry_run else await _apply(operation, ids)
            if len(found) < size:
                return BulkResult(done, None)
            which = which._replace(before=found[-1].id)
            left -= size
        return BulkResult(done, which.before)


async def _apply(operation: Operation, ids: Sequence[str]) -> int:
    done = 0
    for start in range(0, len(ids), CONCURRENCY):
        done += sum(await asyncio.gather(*map(operation, ids[start : start + CONCURRENCY])))
    return done
