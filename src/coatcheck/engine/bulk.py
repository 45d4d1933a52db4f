"""Doing the same with all jobs that a filter finds: resume, cancel, delete.

Jobs are looked up page by page, newest first, and dealt with some at a time; `dry_run` only counts
them. One call looks at a bounded number and says where the next one begins, so that whoever asks
sees it progress, and a crash or a lost connection leaves jobs that were dealt with and jobs that
were not, and nothing in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from coatcheck.errors import Conflict, InvalidInput, NotFound
from coatcheck.model.job import Job
from coatcheck.model.state import State
from coatcheck.store.base import JobFilter

if TYPE_CHECKING:
    from coatcheck.engine.engine import Engine

# How many jobs one call looks at, and how many of them it deals with at a time.
MOST_AT_ONCE = 1_000
PAGE = 200
AT_A_TIME = 50

CANCELLABLE = (State.QUEUED, State.RUNNING, State.WAITING)
DELETABLE = (State.SUCCEEDED, State.FAILED, State.CANCELLED)

Deed = Callable[[str], Awaitable[bool]]
# Tells whether a job that a filter finds is meant: jobs that the caller may not read are not.
Only = Callable[[Job], bool]


def match_all(_job: Job) -> bool:
    """Accept every job that a filter finds."""
    return True


class BulkResult(NamedTuple):
    """With how many jobs it was done (or would be), and the last that was looked at where there
    may be more.
    """

    jobs: int
    last: str | None


async def cancel_some(engine: Engine, which: JobFilter, only: Only, *, dry_run: bool) -> BulkResult:
    """Cancel the newest jobs that a filter finds, or only count them."""
    if which.state not in CANCELLABLE:
        raise InvalidInput("only jobs that have not ended can be cancelled")

    async def cancel(job_id: str) -> bool:
        try:
            job = await engine.store.cancel(which.tenant, job_id, engine.clock.now())
        except NotFound:
            return False
        return job.state is State.CANCELLED or job.cancel_requested

    return await for_each(engine, which, only, cancel, dry_run=dry_run)


async def delete_some(engine: Engine, which: JobFilter, only: Only, *, dry_run: bool) -> BulkResult:
    """Delete the newest jobs that a filter finds, or only count them. Their bytes are erased once,
    at the end.
    """
    if which.state not in DELETABLE:
        raise InvalidInput("only jobs that have ended can be deleted")

    async def delete(job_id: str) -> bool:
        try:
            await engine.store.delete(which.tenant, job_id, engine.clock.now())
        except (NotFound, Conflict):
            return False  # deleted or resumed since
        return True

    done = await for_each(engine, which, only, delete, dry_run=dry_run)
    if done.jobs and not dry_run:
        await engine.erase()
    return done


async def for_each(
    engine: Engine, which: JobFilter, only: Only, deed: Deed, *, dry_run: bool
) -> BulkResult:
    """Do something with the newest jobs that a filter finds, `which.limit` at most, and that `only`
    accepts; `deed` says whether it was done.
    """
    done, left = 0, min(which.limit, MOST_AT_ONCE)
    while left:
        size = min(PAGE, left)
        found = await engine.store.list_jobs(which._replace(limit=size))
        ids = [job.id for job in found if only(job)]
        done += len(ids) if dry_run else await _do(deed, ids)
        if len(found) < size:
            return BulkResult(done, None)
        which = which._replace(before=found[-1].id)
        left -= size
    return BulkResult(done, which.before)


async def _do(deed: Deed, ids: Sequence[str]) -> int:
    done = 0
    for start in range(0, len(ids), AT_A_TIME):
        done += sum(await asyncio.gather(*map(deed, ids[start : start + AT_A_TIME])))
    return done
