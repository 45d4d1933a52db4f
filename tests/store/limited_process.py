"""A process that works under limits and writes down what it runs, and the check of what many wrote.

Run as `python -m tests.store.limited_process DATABASE SCHEMA FILE`. A line is appended after a
claim has been answered and before its end is written: what overlaps in the file did in truth.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from coatcheck.ids import UlidGenerator
from coatcheck.model.job import JobInsert
from coatcheck.model.limit import Limit
from coatcheck.model.outcome import Succeeded
from coatcheck.model.worker import WorkerInfo
from coatcheck.settings import Settings
from coatcheck.store.base import Settlement, Store, Topic
from coatcheck.store.open import store_for
from coatcheck.testing.conformance.arrange import NOW, new_job

LIMITS = {"mail": Limit(2, by_key=True), "chart": Limit(3)}
PROCESSES, KEYS, KEYED, PLAIN = 4, 5, 60, 40
PATIENCE_S = 90


async def fill(store: Store) -> dict[str, str]:
    """Submit jobs and return what each counts for."""
    mails = [new_job(limit_key=f"k{number % KEYS}") for number in range(KEYED)]
    charts = [new_job("chart", tenant=f"t{number % 3}") for number in range(PLAIN)]
    jobs: list[JobInsert] = [*mails, *charts]
    await store.jobs.submit_batch(jobs, NOW)
    return {job.id: job.limit_key or job.kind for job in jobs}


def run_processes(database: str, schema: str, file: Path) -> None:
    """Let several processes work until nothing is left."""
    command = [sys.executable, "-m", "tests.store.limited_process", database, schema, str(file)]
    started = [subprocess.Popen(command) for _ in range(PROCESSES)]
    assert [process.wait(PATIENCE_S) for process in started] == [0] * PROCESSES


def check(file: Path, counts_for: dict[str, str]) -> None:
    """Fail where more ran at once than may, or something did not run once."""
    running: Counter[str] = Counter()
    ended = []
    for line in file.read_text().splitlines():
        what, job_id = line.split()
        name = counts_for[job_id]
        if what == "end":
            running[name] -= 1
            ended.append(job_id)
        else:
            running[name] += 1
            assert running[name] <= (3 if name == "chart" else 2), line
    assert sorted(ended) == sorted(counts_for)


async def work(database: str, schema: str, file: Path) -> None:
    """Claim and end jobs until none is left."""
    store = store_for(Settings(database=database, schema=schema))
    await store.open()
    worker = UlidGenerator()()
    await store.workers.register_worker(
        WorkerInfo(worker, "here", os.getpid(), tuple(LIMITS), 8, NOW)
    )
    signal = store.subscribe(Topic.WORK)
    with file.open("a", buffering=1) as log:
        while any(queue.ready + queue.running for queue in await store.queues.list_queues()):
            claims = (await store.workers.claim(worker, tuple(LIMITS), 4, NOW, LIMITS)).claims
            for claim in claims:
                log.write(f"start {claim.lease.job_id}\n")
            for claim in claims:
                log.write(f"end {claim.lease.job_id}\n")
            await store.workers.settle(
                [Settlement(claim.lease, Succeeded("1")) for claim in claims], NOW
            )
            if not claims:
                await signal.wait(1)
    signal.close()
    await store.workers.remove_worker(worker, None, NOW)
    await store.close()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
