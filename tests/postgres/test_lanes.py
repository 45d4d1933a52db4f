"""Claims that look into known lanes only find what those that look everywhere would.

`slow_s` is set so that every claim that looks everywhere counts as slow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from coatcheck.model.outcome import Errored, Released, Succeeded
from coatcheck.store.base import Settlement, Topic
from coatcheck.store.postgres.claims import cursor as claim_cursor
from coatcheck.store.postgres.claims.cursor import ClaimCursor
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    WORKER,
    new_job,
    worker_info,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def always_slow(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_cursor, "PATIENCE", 1e9)
    monkeypatch.setattr(claim_cursor, "LONGEST_S", 3_600.0)
    store._claimer.lanes = ClaimCursor(slow_s=-60.0, slow_looks=1)
    await store.workers.register_worker(worker_info(WORKER))


@pytest.fixture
async def other(dsn: str, schema: str) -> AsyncIterator[PostgresStore]:
    """Another process, in effect: it shares nothing but the schema."""
    other = PostgresStore(dsn, schema=schema, connections=2, poll_s=60)
    await other.open()
    yield other
    await other.close()


async def claim(
    store: PostgresStore, limit: int, now: int = NOW, worker: str = WORKER
) -> list[str]:
    claimed = await store.workers.claim(worker, ["mail"], limit, now)
    return [one.lease.job_id for one in claimed.claims]


async def test_after_a_slow_look_claims_go_by_the_lanes(store: PostgresStore) -> None:
    jobs = [new_job(priority=n % 2, queue="ab"[n // 2 % 2]) for n in range(12)]
    await store.jobs.submit_batch(jobs, NOW)
    in_order = [job.id for job in sorted(jobs, key=lambda job: (-job.priority, job.id))]
    assert await claim(store, 5) == in_order[:5]
    assert store._claimer.lanes.known(["mail"]) is not None
    assert await claim(store, 5) == in_order[5:10]
    assert await claim(store, 5) == in_order[10:]
    assert await claim(store, 5) == []


async def test_only_what_is_slow_again_is_slow() -> None:
    known = ClaimCursor(slow_s=0.001, slow_looks=2)
    looks = [(0.5, 1), (0.001, 1), (0.5, 1), (0.5, 1), (0.5, 1), (0.02, 1_000), (0.02, 10)]
    found = [known.is_slow(took, jobs) for took, jobs in looks]
    assert found == [False, False, False, True, True, False, False]


async def test_a_job_queued_again_behind_the_beginning_is_found_in_its_order(
    store: PostgresStore,
) -> None:
    jobs = [new_job() for _ in range(6)]
    await store.jobs.submit_batch(jobs, NOW)
    first = (await store.workers.claim(WORKER, ["mail"], 2, NOW)).claims
    assert await claim(store, 2) == [job.id for job in jobs[2:4]]
    await store.workers.settle([Settlement(first[1].lease, Released())], NOW)
    await store.workers.settle([Settlement(first[0].lease, Errored(BOOM, 0))], NOW)
    assert await claim(store, 3) == [jobs[0].id, jobs[1].id, jobs[4].id]


@pytest.mark.parametrize("how", ["an older id", "a new queue", "a higher priority", "a delay"])
async def test_a_job_submitted_later_is_found_in_its_order(store: PostgresStore, how: str) -> None:
    early = new_job()
    jobs = [new_job(queue="m") for _ in range(4)]
    await store.jobs.submit_batch(jobs, NOW)
    assert await claim(store, 1) == [jobs[0].id]
    late = {
        "an older id": early._replace(queue="m"),
        "a new queue": early._replace(queue="a"),
        "a higher priority": new_job(queue="m", priority=1),
        "a delay": early._replace(queue="m", run_at=NOW + 1),
    }[how]
    await store.jobs.submit(late, NOW)
    assert await claim(store, 2, NOW + 1) == [late.id, jobs[1].id]


async def test_jobs_of_a_lost_worker_and_of_a_released_queue_are_found(
    store: PostgresStore,
) -> None:
    await store.workers.register_worker(worker_info("lost"))
    held, paused, last = new_job(), new_job(queue="paused"), new_job()
    await store.jobs.submit_batch([held, paused, last], NOW)
    await store.queues.pause_queue("paused", True, NOW)
    assert await claim(store, 1, worker="lost") == [held.id]
    assert await claim(store, 2) == [last.id]
    await store.workers.remove_worker("lost", None, NOW)
    assert await claim(store, 1) == [held.id]
    assert await claim(store, 1) == []
    await store.queues.pause_queue("paused", False, NOW)
    assert await claim(store, 1) == [paused.id]


async def test_what_another_process_queues_again_is_found_when_the_lanes_are_old(
    store: PostgresStore, other: PostgresStore
) -> None:
    jobs = [new_job() for _ in range(3)]
    await store.jobs.submit_batch(jobs, NOW)
    [first] = (await store.workers.claim(WORKER, ["mail"], 1, NOW)).claims
    assert await claim(store, 1) == [jobs[1].id]
    await other.workers.settle([Settlement(first.lease, Released())], NOW)
    assert await claim(store, 1) == [jobs[2].id]  # it does not know
    view = store._claimer.lanes.known(["mail"])
    assert view is not None
    view.old_at = 0.0
    assert await claim(store, 1) == [jobs[0].id]


async def test_who_waits_is_woken_when_the_lanes_are_old(
    store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_cursor, "LONGEST_S", 0.3)
    job, another = new_job(), new_job()
    await store.jobs.submit(another, NOW)
    await claim(store, 1)
    work = store.subscribe(Topic.WORK)
    while await work.wait(0.05):
        pass  # it listens by now
    await claim(store, 1)
    await other.jobs.submit(job._replace(kind="mail", queue="elsewhere"), NOW)
    found: list[str] = []
    async with asyncio.timeout(20):
        while not found:
            await work.wait()
            found = await claim(store, 1)
    assert found == [job.id]


async def test_a_job_committed_during_a_claim_is_not_passed_over(store: PostgresStore) -> None:
    jobs = [new_job() for _ in range(4)]
    await store.jobs.submit_batch([jobs[0], jobs[3]], NOW)
    assert await claim(store, 1) == [jobs[0].id]
    view = store._claimer.lanes.known(["mail"])
    assert view is not None
    # The claim has read its snapshot, and this job was committed after that.
    opened = view.start()
    await store.jobs.submit(jobs[1], NOW)
    view.taken(opened, [(("mail", "default", 0), jobs[3].id)])
    assert await claim(store, 1) == [jobs[1].id]


async def test_what_a_claim_lets_go_of_is_not_passed_over_by_another(store: PostgresStore) -> None:
    """Each claim locks the first jobs of every lane, and takes the first of all that it locked."""
    for _ in range(5):
        jobs = [new_job(queue="ab"[n % 2]) for n in range(100)]
        await store.jobs.submit_batch(jobs, NOW)
        claims = await asyncio.gather(*(claim(store, 9) for _ in range(10)))
        claims.append(await claim(store, len(jobs)))
        assert sorted(id_ for some in claims for id_ in some) == [job.id for job in jobs]


@pytest.mark.parametrize("first", ["the one that lets go", "the one that passed over"])
async def test_a_beginning_moves_back_to_what_was_let_go_of(
    store: PostgresStore, first: str
) -> None:
    jobs = [new_job() for _ in range(6)]
    await store.jobs.submit_batch(jobs, NOW)
    assert await claim(store, 1) == [jobs[0].id]
    view = store._claimer.lanes.known(["mail"])
    assert view is not None
    lane = ("mail", "default", 0)
    lets_go, passes_over = view.start(), view.start()

    def end_one() -> None:  # it had locked all up to jobs[3]
        view.taken(lets_go, [(lane, jobs[1].id)])
        store._claimer.lanes.opened(lets_go.last.items())

    if first == "the one that lets go":
        end_one()
    view.taken(passes_over, [(lane, jobs[4].id)])
    if first == "the one that passed over":
        end_one()
    assert view.begins[lane] <= jobs[2].id


async def test_all_is_claimed_once_by_many_claims_at_once(store: PostgresStore) -> None:
    taken: list[str] = []

    async def work() -> None:
        for _ in range(15):
            claims = (await store.workers.claim(WORKER, ["mail"], 4, NOW)).claims
            taken.extend(one.lease.job_id for one in claims)
            again = [Settlement(one.lease, Released()) for one in claims[:1]]
            taken[:] = [id_ for id_ in taken if id_ not in {a.lease.job_id for a in again}]
            await store.workers.settle(again, NOW)
            done = [Settlement(one.lease, Succeeded("1")) for one in claims[1:]]
            assert all(await store.workers.settle(done, NOW))

    async def hand_in() -> None:
        for _ in range(30):
            await store.jobs.submit(new_job(priority=len(taken) % 2), NOW)

    await asyncio.gather(work(), work(), work(), hand_in(), hand_in())
    while found := await claim(store, 4):
        taken.extend(found)
    assert len(taken) == len(set(taken)) == 60
