"""One of several processes that hammer one file: `python -m tests.store.hammer FILE NAME JOBS`.

It submits its jobs in every way there is, and meanwhile claims and settles whatever it gets, its
own jobs or others'. It says when it has submitted everything, and when told that all have, works
until no job is left.
"""

import asyncio
import sys
from pathlib import Path

from coatcheck.model.job import Claim, Failure
from coatcheck.model.outcome import Errored, Outcome, Released, Succeeded
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import Settlement, Topic
from coatcheck.store.sqlite.store import SQLiteStore
from tests.store.another_process import NOW, listen, new_job, say


async def submit_all(store: SQLiteStore, count: int) -> None:
    one_by_one, at_once, batch = count // 5, count // 5, count - 2 * (count // 5)
    for _ in range(one_by_one):
        await store.jobs.submit(new_job(), NOW)
    await asyncio.gather(*(store.jobs.submit(new_job(), NOW) for _ in range(at_once)))
    await store.jobs.submit_batch([new_job() for _ in range(batch)], NOW)


def outcome_of(claim: Claim) -> Outcome:
    """Some attempts fail and some are given back; each job succeeds in the end."""
    if claim.lease.fence == 1 and claim.lease.job_id[-1] in "0123":
        return Errored(Failure("once", "it fails once"), retry_after_ms=0)
    if claim.lease.fence == 1 and claim.lease.job_id[-1] in "456":
        return Released()
    return Succeeded(f'"{claim.lease.job_id}"')


async def work(store: SQLiteStore, name: str, all_submitted: asyncio.Event) -> int:
    await store.workers.register_worker(WorkerInfo(name, "here", 1, ("mail",), 16, NOW))
    woken = store.subscribe(Topic.WORK)
    settled = 0
    while True:
        claims = (await store.workers.claim(name, ["mail"], 16, NOW)).claims
        *answers, known = await asyncio.gather(
            *(
                store.workers.settle([Settlement(claim.lease, outcome_of(claim))], NOW)
                for claim in claims
            ),
            store.workers.heartbeat(name),
        )
        assert all(answer == [True] for answer in answers) and known, (
            "nobody else ever writes with our leases"
        )
        settled += len(claims)
        if not claims:
            if all_submitted.is_set() and not await store.queues.list_queues():
                break
            await woken.wait(0.1)
    await store.workers.remove_worker(name, None, NOW)
    return settled


async def main(database: str, name: str, count: str) -> None:
    store = SQLiteStore(Path(database))
    await store.open()
    say("ready")
    await asyncio.to_thread(listen)
    all_submitted = asyncio.Event()
    working = asyncio.create_task(work(store, name, all_submitted))
    await submit_all(store, int(count))
    say("submitted")
    await asyncio.to_thread(listen)
    all_submitted.set()
    say(await working)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
