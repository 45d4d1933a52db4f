"""Conformance tests for fairness and limits: which jobs a claim returns and which it skips."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from coatcheck.model.job import Claim
from coatcheck.model.limit import Limit, read_rate
from coatcheck.model.outcome import Errored, GaveUp, Outcome, Released, Succeeded, Waiting
from coatcheck.store.base import QueueStatus, Settlement, Store, Topic
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    OTHER_WORKER,
    TENANT,
    WORKER,
    Conformance,
    new_job,
    settle,
    worker_info,
)

Limits = dict[str, Limit]
ONE = {"mail": Limit(1)}
BY_KEY = {"mail": Limit(1, by_key=True)}
NOT_YET = 0.05


async def take(
    store: Store,
    limits: Limits,
    limit: int = 100,
    *,
    worker: str = WORKER,
    now: int = NOW,
    versions: dict[str, str] | None = None,
) -> list[Claim]:
    """Claim jobs of the kinds mail and chart under limits."""
    kinds = ("chart", "mail")
    return (await store.workers.claim(worker, kinds, limit, now, limits, versions or {})).claims


async def end_all(store: Store, claims: list[Claim], outcome: Outcome | None = None) -> None:
    """Settle all claims."""
    ended = [Settlement(claim.lease, outcome or Succeeded("1")) for claim in claims]
    assert all(await store.workers.settle(ended, NOW))


def tenants(claims: list[Claim]) -> list[str]:
    """Return the tenant of each claim, in order."""
    return [claim.lease.tenant for claim in claims]


class LimitConformance(Conformance):
    """Tests for `claim` with limits and tenants, `limit_queue` and `get_limit_usage`."""

    # --- tenants

    async def test_tenants_take_turns(self, store: Store, worker: str) -> None:
        """A thousand jobs of one tenant do not delay two jobs of another."""
        big = [new_job(tenant="big") for _ in range(1_000)]
        await store.jobs.submit_batch(big, NOW)
        await store.jobs.submit_batch([new_job(tenant="small") for _ in range(2)], NOW)
        first = await take(store, {}, 6)
        assert tenants(first) == ["big", "small", "big", "small", "big", "big"]
        taken = [claim.lease.job_id for claim in first if claim.lease.tenant == "big"]
        assert taken == [job.id for job in big[:4]]

    async def test_a_claim_goes_on_where_the_last_one_ended(
        self, store: Store, worker: str
    ) -> None:
        """Turns continue across claims, even with more tenants than slots."""
        names = [f"tenant-{number:03d}" for number in range(200)]
        await store.jobs.submit_batch(
            [new_job(tenant=name) for name in names for _ in range(3)], NOW
        )
        served = []
        while claims := await take(store, {}, 7):
            served += tenants(claims)
            await end_all(store, claims)
        assert served == names * 3

    async def test_priority_comes_before_turns(self, store: Store, worker: str) -> None:
        """Jobs of a higher priority come first, whichever tenant's turn it is."""
        await store.jobs.submit_batch([new_job(tenant="a"), new_job(tenant="b")], NOW)
        await store.jobs.submit_batch([new_job(tenant="b", priority=5) for _ in range(3)], NOW)
        assert tenants(await take(store, {}, 4)) == ["b", "b", "b", "a"]

    async def test_each_priority_has_its_own_turns(self, store: Store, worker: str) -> None:
        """High-priority jobs of one tenant do not change the turns at a lower priority."""
        await store.jobs.submit_batch(
            [new_job(tenant=name) for name in "abc" for _ in range(2)], NOW
        )
        served = []
        for _ in range(6):
            await store.jobs.submit(new_job(tenant="z", priority=1), NOW)
            served += tenants(await take(store, {}, 2))
        assert [name for name in served if name != "z"] == ["a", "b", "c", "a", "b", "c"]

    async def test_the_default_tenant_takes_turns_as_any_other(
        self, store: Store, worker: str
    ) -> None:
        """The default tenant takes turns at each priority, even if it was alone before."""
        await store.jobs.submit_batch([new_job(priority=level) for level in (0, 0, 0, 7)], NOW)
        assert tenants(await take(store, {}, 2)) == [TENANT, TENANT]
        others = [new_job(tenant=name, priority=level) for name in "ax" for level in (0, 7)]
        await store.jobs.submit_batch([*others, new_job(priority=7)], NOW)
        assert tenants(await take(store, {}, 3)) == ["x", "a", TENANT]
        assert tenants(await take(store, {})) == ["x", "a", TENANT, TENANT]

    async def test_who_takes_turns_for_other_kinds_changes_nothing(
        self, store: Store, worker: str
    ) -> None:
        """Jobs of an unlimited kind are claimed by age, even if other kinds are limited."""
        await store.jobs.submit_batch([new_job("chart", tenant="a") for _ in range(3)], NOW)
        await store.queues.limit_queue("gpu", 1)
        jobs = [new_job() for _ in range(6)]
        await store.jobs.submit_batch(jobs, NOW)
        taken = [
            claim.lease.job_id
            for most in (1, 2, 3)
            for claim in (await store.workers.claim(worker, ["mail"], most, NOW)).claims
        ]
        assert taken == [job.id for job in jobs]
        await store.jobs.submit_batch([new_job(queue="gpu") for _ in range(2)], NOW)
        assert len((await store.workers.claim(worker, ["mail"], 9, NOW)).claims) == 1
        assert len((await store.workers.claim(worker, ["chart"], 9, NOW)).claims) == 3

    # --- how many at once

    async def test_no_more_of_a_kind_than_its_limit(self, store: Store, worker: str) -> None:
        """A kind's limit applies across workers and does not affect other kinds."""
        await store.workers.register_worker(worker_info(OTHER_WORKER))
        await store.jobs.submit_batch([new_job() for _ in range(5)], NOW)
        chart = new_job("chart")
        await store.jobs.submit(chart, NOW)
        limits = {"mail": Limit(3)}
        mine = await take(store, limits, 2)
        theirs = await take(store, limits, worker=OTHER_WORKER)
        assert [claim.kind for claim in mine + theirs] == ["mail", "mail", "mail", "chart"]
        assert await take(store, limits) == []
        await end_all(store, mine)
        assert len(await take(store, limits)) == 2

    async def test_no_more_of_a_key_than_its_limit(self, store: Store, worker: str) -> None:
        """A limit by key applies to each key of each tenant; jobs without a key are not limited."""
        jobs = [new_job(limit_key=key) for key in ("a", "a", "b", None, None)]
        others = [new_job(limit_key="a", tenant="umbrella"), new_job(limit_key="a", queue="slow")]
        await store.jobs.submit_batch([*jobs, *others], NOW)
        first = await take(store, BY_KEY)
        assert {claim.lease.job_id for claim in first} == {
            job.id for job in (jobs[0], *jobs[2:], others[0])
        }
        assert await take(store, BY_KEY) == []
        await end_all(store, first)
        [second] = await take(store, BY_KEY)
        await end_all(store, [second])
        [third] = await take(store, BY_KEY)
        assert {second.lease.job_id, third.lease.job_id} == {jobs[1].id, others[1].id}

    async def test_keys_take_turns(self, store: Store, worker: str) -> None:
        """None of 200 limit keys waits for the backlog of another."""
        keys = [f"key-{number:03d}" for number in range(200)]
        jobs = [new_job(limit_key=key) for key in keys for _ in range(2)]
        key_of = {job.id: job.limit_key for job in jobs}
        await store.jobs.submit_batch(
            [*jobs, *(new_job(limit_key=keys[0]) for _ in range(50))], NOW
        )
        served: list[str | None] = []
        for _ in range(40):
            claims = await take(store, BY_KEY, 5)
            served += [key_of[claim.lease.job_id] for claim in claims]
            await end_all(store, claims)
        assert served == keys

    async def test_a_full_lane_does_not_hold_up_what_comes_after_it(
        self, store: Store, worker: str
    ) -> None:
        """Jobs behind a full lane are claimed, even if the full lane has a higher priority."""
        await store.jobs.submit_batch([new_job(priority=9) for _ in range(3)], NOW)
        [running] = await take(store, ONE)
        low = new_job("chart", priority=-9)
        await store.jobs.submit(low, NOW)
        [claim] = await take(store, ONE, 1)
        assert claim.lease.job_id == low.id
        await end_all(store, [running])
        assert len(await take(store, ONE)) == 1

    @pytest.mark.parametrize(
        "outcome",
        [Succeeded("1"), Errored(BOOM, 60_000), Released(60_000), Waiting(NOW + 60_000, ())],
        ids=["succeeded", "failed", "released", "waiting"],
    )
    async def test_whoever_was_refused_is_woken_when_there_is_room(
        self, store: Store, worker: str, outcome: Outcome
    ) -> None:
        """A running job that stops for any reason wakes the workers that its limit held back."""
        await store.jobs.submit_batch([new_job(), new_job()], NOW)
        [running] = await take(store, ONE)
        signal = store.subscribe(Topic.WORK)
        while await signal.wait(NOT_YET):
            continue  # drain the signals of the submits
        await settle(store, running.lease, outcome)
        assert await signal.wait(10)
        signal.close()
        assert len(await take(store, ONE)) == 1

    async def test_a_head_start_lets_younger_jobs_go_first(self, store: Store, worker: str) -> None:
        """An age boost lets a queue's jobs overtake older ones, but only up to that age gap."""
        ages = {"cold": 0, "cold too": 60_000, "warm": 50_000, "warm late": 70_000}
        jobs = {
            name: new_job(created_at=NOW + ms, queue=name.split()[0]) for name, ms in ages.items()
        }
        await store.jobs.submit_batch(list(jobs.values()), NOW + 70_000)
        limits = {"mail": Limit(1, age_boosts={"warm": 30_000})}
        served = []
        for _ in jobs:
            claims = await take(store, limits, now=NOW + 80_000)
            served += [claim.lease.job_id for claim in claims]
            await end_all(store, claims)
        order = ("cold", "warm", "warm late", "cold too")
        assert served == [jobs[name].id for name in order]

    async def test_a_lost_worker_leaves_room(self, store: Store, worker: str) -> None:
        """Jobs of a lost worker no longer count towards a limit."""
        await store.workers.register_worker(worker_info(OTHER_WORKER))
        await store.jobs.submit_batch([new_job(), new_job()], NOW)
        assert len(await take(store, ONE)) == 1
        await store.workers.remove_worker(WORKER, None, NOW)
        assert len(await take(store, ONE, worker=OTHER_WORKER)) == 1
        assert await take(store, ONE, worker=OTHER_WORKER) == []

    async def test_a_limit_counts_what_began_before_it(self, store: Store, worker: str) -> None:
        """Jobs that were running when their kind got a limit count towards it."""
        await store.jobs.submit_batch([new_job() for _ in range(3)], NOW)
        running = await take(store, {}, 2)
        assert await take(store, {"mail": Limit(2)}) == []
        await end_all(store, running[:1])
        assert len(await take(store, {"mail": Limit(2)})) == 1

    async def test_limits_are_exact_under_concurrent_claims(
        self, store: Store, worker: str
    ) -> None:
        """Concurrent claims never exceed the limits, and all jobs finish."""
        workers = [f"crowd-{number}" for number in range(6)]
        for name in workers:
            await store.workers.register_worker(worker_info(name))
        jobs = [new_job(limit_key=f"k{number % 4}") for number in range(60)]
        jobs += [new_job("chart", tenant=f"t{number % 3}") for number in range(40)]
        key_of = {job.id: (job.kind, job.limit_key) for job in jobs}
        await store.jobs.submit_batch(jobs, NOW)
        limits = {"mail": Limit(2, by_key=True), "chart": Limit(3)}
        running: Counter[tuple[str, str | None]] = Counter()
        done: set[str] = set()

        async def work(name: str) -> None:
            while len(done) < len(jobs):
                claims = await take(store, limits, 5, worker=name)
                running.update(key_of[claim.lease.job_id] for claim in claims)
                assert running["chart", None] <= 3
                assert all(running["mail", f"k{number}"] <= 2 for number in range(4))
                await asyncio.sleep(0)
                # Subtract before settling, because other claims can use the freed slots at once.
                running.subtract(key_of[claim.lease.job_id] for claim in claims)
                await end_all(store, claims)
                done.update(claim.lease.job_id for claim in claims)

        await asyncio.gather(*map(work, workers))
        assert done == set(key_of)

    # --- queues

    async def test_no_more_of_a_queue_than_its_limit(self, store: Store, worker: str) -> None:
        """A queue's limit covers all kinds and tenants, and can change while jobs run."""
        await store.jobs.submit_batch(
            [
                new_job(kind, queue="gpu", tenant=name)
                for kind in ("mail", "chart")
                for name in "ab"
            ],
            NOW,
        )
        free = new_job()
        await store.jobs.submit(free, NOW)
        await store.queues.limit_queue("gpu", 1)
        first = await take(store, {})
        assert sorted(claim.queue for claim in first) == ["default", "gpu"]
        assert await take(store, {}) == []
        await store.queues.limit_queue("gpu", 2)
        assert len(await take(store, {})) == 1
        await store.queues.limit_queue("gpu", None)
        assert len(await take(store, {})) == 2

    async def test_a_queues_limit_counts_what_runs_already(self, store: Store, worker: str) -> None:
        """Jobs that already run count towards a new queue limit."""
        await store.jobs.submit_batch([new_job() for _ in range(4)], NOW)
        running = await take(store, {}, 3)
        await store.queues.limit_queue("default", 2)
        assert await take(store, {}) == []
        await end_all(store, running[:1])
        assert await take(store, {}) == []
        await end_all(store, running[1:])
        assert len(await take(store, {})) == 1

    async def test_a_queue_tells_its_limit(self, store: Store) -> None:
        """A queue with a limit is listed with it, even if the queue is empty."""
        await store.queues.limit_queue("gpu", 3)
        await store.queues.pause_queue("gpu", True, NOW)
        assert await store.queues.list_queues() == [QueueStatus("gpu", True, 0, 0, 0, None, 3)]
        await store.queues.pause_queue("gpu", False, NOW)
        assert await store.queues.list_queues() == [QueueStatus("gpu", False, 0, 0, 0, None, 3)]
        await store.queues.limit_queue("gpu", None)
        assert await store.queues.list_queues() == []

    @pytest.mark.parametrize("outcome", [Succeeded("1"), GaveUp(BOOM)])
    async def test_room_in_a_queue_is_told_of_by_what_ran_before_its_limit(
        self, store: Store, worker: str, outcome: Outcome
    ) -> None:
        """A job that started before its queue got a limit wakes the workers when it stops."""
        await store.jobs.submit_batch([new_job(queue="gpu") for _ in range(2)], NOW)
        [running] = await take(store, {}, 1)
        await store.queues.limit_queue("gpu", 1)
        assert await take(store, {}) == []
        signal = store.subscribe(Topic.WORK)
        while await signal.wait(NOT_YET):
            continue  # drain earlier signals
        await settle(store, running.lease, outcome)
        assert await signal.wait(10)
        signal.close()
        assert len(await take(store, {})) == 1

    async def test_a_new_limit_of_a_queue_wakes_workers(self, store: Store) -> None:
        """A changed queue limit wakes the workers, because more jobs may fit."""
        signal = store.subscribe(Topic.WORK)
        await store.queues.limit_queue("gpu", 5)
        assert await signal.wait(10)
        signal.close()

    # --- rates

    async def test_a_rate_spaces_starts(self, store: Store, worker: str) -> None:
        """A rate of 10 per minute starts a job every 6 seconds; `next_due` is the next start."""
        limits = {"mail": Limit(rate=read_rate("10/m", "rate"))}
        await store.jobs.submit_batch([new_job() for _ in range(4)], NOW)
        first = await store.workers.claim(worker, ["mail"], 10, NOW, limits)
        assert (len(first.claims), first.next_due) == (1, NOW + 6_000 - 100)
        early = await store.workers.claim(worker, ["mail"], 10, NOW + 5_899, limits)
        assert (early.claims, early.next_due) == ([], NOW + 5_900)
        second = await store.workers.claim(worker, ["mail"], 10, NOW + 5_900, limits)
        assert (len(second.claims), second.next_due) == (1, NOW + 11_900)
        assert (
            len((await store.workers.claim(worker, ["mail"], 10, NOW + 60_000, limits)).claims) == 1
        )

    async def test_a_fast_rate_lets_a_few_start_together(self, store: Store, worker: str) -> None:
        """A fast rate allows a burst of a tenth of a second, even after a long pause."""
        limits = {"mail": Limit(rate=read_rate("100/s", "rate"))}
        await store.jobs.submit_batch([new_job() for _ in range(100)], NOW)
        counts = [len(await take(store, limits, now=NOW + ms)) for ms in (0, 0, 10, 55, 5_000)]
        assert counts == [11, 0, 1, 4, 11]

    async def test_a_rate_holds_over_all_workers_and_does_not_hold_other_kinds(
        self, store: Store, worker: str
    ) -> None:
        """A rate applies across workers, and does not delay other kinds."""
        await store.workers.register_worker(worker_info(OTHER_WORKER))
        limits = {"mail": Limit(rate=read_rate("1/h", "rate"))}
        await store.jobs.submit_batch([new_job(), new_job(), new_job("chart")], NOW)
        assert len(await take(store, limits)) == 2
        assert await take(store, limits, worker=OTHER_WORKER, now=NOW + 3_000_000) == []
        assert len(await take(store, limits, worker=OTHER_WORKER, now=NOW + 3_600_000)) == 1

    async def test_a_kind_that_waits_for_its_rate_names_a_time_only_while_it_has_jobs(
        self, store: Store, worker: str
    ) -> None:
        """`next_due` is None if the kind has no queued jobs, so an idle worker sleeps."""
        limits = {"mail": Limit(rate=read_rate("1/h", "rate"))}
        await store.jobs.submit(new_job(), NOW)
        await store.workers.claim(worker, ["mail"], 10, NOW, limits)
        assert (await store.workers.claim(worker, ["mail"], 10, NOW + 1, limits)).next_due is None

    async def test_how_a_limit_stands(self, store: Store, worker: str) -> None:
        """The usage of a limit shows the running jobs and the next start that its rate allows."""
        rate = read_rate("1/s", "rate")
        await store.jobs.submit_batch([new_job(limit_key=key) for key in "aab"], NOW)
        limits = {"mail": Limit(2, by_key=True)}
        assert (
            await store.workers.get_limit_usage("mail", limits["mail"], TENANT, "a")
        ).running == 0
        await take(store, limits, 2)
        await take(store, {"mail": Limit(2, by_key=True, rate=rate)}, 1)
        for key, running in (("a", 2), ("b", 1), ("c", 0)):
            assert (
                await store.workers.get_limit_usage("mail", limits["mail"], TENANT, key)
            ).running == running
        stands = await store.workers.get_limit_usage("mail", Limit(9, rate=rate), TENANT, None)
        assert stands == (3, (NOW + 900) * 1000)
        assert await store.workers.get_limit_usage("mail", None, TENANT, None) == (
            0,
            (NOW + 900) * 1000,
        )
