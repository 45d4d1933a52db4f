"""Conformance tests for webhook deliveries: claimed by lane, recorded by attempt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coatcheck.model.outcome import Succeeded
from coatcheck.model.webhook import DeliveryAttempt, DeliveryState, WebhookDelivery
from coatcheck.store.base import Store, Topic
from coatcheck.store.webhooks import (
    DeliveryClaim,
    DeliveryFilter,
    DeliveryLane,
    DeliveryResult,
    EndpointHealth,
)
from coatcheck.testing.conformance.arrange import (
    NOW,
    TENANT,
    Conformance,
    new_job,
    run_job,
    settle,
)
from coatcheck.testing.conformance.wakeups import LONG, SHORT
from coatcheck.testing.conformance.webhooks import (
    EVERYTHING,
    LEASE,
    called_back,
    ended_job,
    of_job,
    put,
    told,
)


async def take(store: Store, now: int = NOW, most: int = 100) -> list[DeliveryClaim]:
    """Claim the deliveries that are due, up to `most` per lane."""
    wanted = {lane.name: most for lane in await store.webhooks.list_delivery_lanes()}
    return await store.webhooks.claim_deliveries(now, now + LEASE, wanted)


def noted(claimed: DeliveryClaim, state: DeliveryState, **fields: Any) -> DeliveryResult:
    """Return the result of a delivery attempt."""
    delivery = claimed.delivery
    log = (*delivery.log, DeliveryAttempt(NOW, 200, None, 3))
    return DeliveryResult(delivery.key, delivery.attempts, state, None, log)._replace(**fields)


async def delivered(store: Store, *claims: DeliveryClaim) -> None:
    """Record that deliveries succeeded."""
    all_noted = [noted(each, DeliveryState.DELIVERED) for each in claims]
    assert await store.webhooks.record_deliveries(all_noted) == [True] * len(claims)


@pytest.mark.usefixtures("worker")
class DeliveryConformance(Conformance):
    """Tests for claiming, recording, listing and repeating deliveries."""

    async def test_what_is_handed_out_is_not_handed_out_again_before_its_lease_is_over(
        self, store: Store
    ) -> None:
        """A claimed delivery names its endpoint and job, and is claimable again after its lease."""
        endpoint = await put(store)
        job_id = await ended_job(store, traceparent="00-trace")
        [claimed] = await take(store)
        assert (claimed.delivery.key.job_id, claimed.lane) == (job_id, endpoint.lane)
        assert (claimed.endpoint, claimed.kind) == (endpoint, "mail")
        assert claimed.traceparent == "00-trace"
        assert (claimed.delivery.attempts, claimed.delivery.tries) == (1, 1)
        assert claimed.delivery.due_at == NOW + LEASE
        assert await take(store) == []
        [lane] = await store.webhooks.list_delivery_lanes()
        assert lane == DeliveryLane(endpoint.lane, TENANT, NOW + LEASE, tried=True)
        [again] = await take(store, NOW + LEASE)
        assert (again.delivery.key, again.delivery.attempts) == (claimed.delivery.key, 2)

    async def test_every_lane_is_shown_by_its_first_whatever_waits_behind_it(
        self, store: Store
    ) -> None:
        """A lane shows its tenant, and when its first delivery is due and whether it was tried."""
        jobs = [called_back("cancelled", "slow") for _ in range(20)]
        other = called_back("cancelled", "quick", tenant="another")
        await store.jobs.submit_batch([*jobs, other], NOW)
        for moment, job in enumerate([*jobs, other]):
            await store.jobs.cancel(job.tenant, job.id, NOW + moment)
        quick = DeliveryLane("quick", "another", NOW + 20, tried=False)
        slow = DeliveryLane("slow", TENANT, NOW, tried=False)
        assert sorted(await store.webhooks.list_delivery_lanes()) == [quick, slow]
        claims = await store.webhooks.claim_deliveries(NOW, NOW + 5, {"slow": 100})
        assert [each.delivery.key.job_id for each in claims] == [jobs[0].id]
        assert sorted(await store.webhooks.list_delivery_lanes())[1].due_at == NOW + 1
        await store.webhooks.claim_deliveries(NOW + 19, NOW + LEASE, {"slow": 100})
        tried = DeliveryLane("slow", TENANT, NOW + LEASE, tried=True)
        assert sorted(await store.webhooks.list_delivery_lanes()) == [quick, tried]

    async def test_so_many_of_a_lane_are_handed_out_as_are_wanted(self, store: Store) -> None:
        """Each lane yields at most the requested number, longest due first."""
        jobs = [called_back("cancelled", f"lane-{number % 3}") for number in range(15)]
        await store.jobs.submit_batch(jobs, NOW)
        for moment, job in enumerate(jobs):
            await store.jobs.cancel(TENANT, job.id, NOW + 15 - moment)
        wanted = {"lane-0": 2, "lane-2": 4, "unknown": 9}
        claims = await store.webhooks.claim_deliveries(NOW + 15, NOW + LEASE, wanted)
        found = {
            lane: {each.delivery.key.job_id for each in claims if each.lane == lane}
            for lane in wanted
        }
        assert found == {
            "lane-0": {job.id for job in jobs[0::3][-2:]},
            "lane-2": {job.id for job in jobs[2::3][-4:]},
            "unknown": set(),
        }
        assert len(claims) == 6

    async def test_what_became_of_an_attempt_is_noted(self, store: Store) -> None:
        """A delivered, pending or failed attempt is recorded with its log."""
        endpoint = await put(store)
        job_ids = [await ended_job(store) for _ in range(3)]
        claims = await take(store)
        states = [DeliveryState.DELIVERED, DeliveryState.PENDING, DeliveryState.FAILED]
        dues = [None, NOW + 5000, None]
        all_noted = [
            noted(each, state, due_at=due)
            for each, state, due in zip(claims, states, dues, strict=True)
        ]
        assert await store.webhooks.record_deliveries(all_noted) == [True] * 3
        for job_id, state, due in zip(job_ids, states, dues, strict=True):
            [found] = await of_job(store, job_id)
            assert (found.state, found.due_at, found.tries) == (state, due, 1)
            assert found.log == (DeliveryAttempt(NOW, 200, None, 3),)
            assert await store.webhooks.get_delivery(found.key) == found
        assert await take(store) == []
        [lane] = await store.webhooks.list_delivery_lanes()
        assert lane == DeliveryLane(endpoint.lane, TENANT, NOW + 5000, tried=True)
        assert (await store.webhooks.get_endpoint(TENANT, endpoint.id)) == endpoint

    async def test_a_retry_wakes_the_dispatchers_and_a_success_does_not(self, store: Store) -> None:
        """A retry wakes the dispatchers because it is due before the lease expires."""
        await put(store)
        await ended_job(store)
        await ended_job(store)
        taken, refused = await take(store)
        signal = store.subscribe(Topic.WEBHOOKS)
        while await signal.wait(SHORT):
            continue  # a store may wake once without cause when it starts to listen
        await delivered(store, taken)
        assert await signal.wait(SHORT) is False
        retry = noted(refused, DeliveryState.PENDING, due_at=NOW + 5000)
        assert await store.webhooks.record_deliveries([retry]) == [True]
        assert await signal.wait(LONG) is True
        assert await store.webhooks.record_deliveries([retry._replace(attempt=0)]) == [False]
        assert await signal.wait(SHORT) is False
        signal.close()

    async def test_who_comes_after_another_try_changes_nothing(self, store: Store) -> None:
        """A result for an attempt that is no longer the latest is rejected."""
        await put(store)
        await ended_job(store)
        [old] = await take(store)
        [new] = await take(store, NOW + LEASE)
        stale = noted(old, DeliveryState.FAILED, health=EndpointHealth(NOW, NOW, "late"))
        assert await store.webhooks.record_deliveries([stale]) == [False]
        assert await store.webhooks.record_deliveries([noted(new, DeliveryState.DELIVERED)]) == [
            True
        ]
        found = await store.webhooks.get_delivery(old.delivery.key)
        assert found is not None
        assert found.state is DeliveryState.DELIVERED
        [endpoint] = await store.webhooks.list_endpoints(TENANT)
        assert endpoint.disabled_at is None

    async def test_how_an_endpoint_does_is_noted_with_it(self, store: Store) -> None:
        """A result can mark its endpoint as failing, healthy or disabled."""
        endpoint = await put(store)
        for health in (
            EndpointHealth(NOW),
            EndpointHealth(None),
            EndpointHealth(NOW - 9, NOW, "gone"),
        ):
            await ended_job(store)
            [claimed] = await take(store)
            await store.webhooks.record_deliveries(
                [noted(claimed, DeliveryState.DELIVERED, health=health)]
            )
            found = await store.webhooks.get_endpoint(TENANT, endpoint.id)
            assert found is not None
            assert (found.failing_since, found.disabled_at, found.disabled_why) == health
        assert await told(store, await ended_job(store)) == []

    async def test_a_jobs_own_endpoint_is_disabled_alone(self, store: Store) -> None:
        """Disabling a job's own endpoint does not affect other jobs."""
        gone, other = called_back(EVERYTHING), called_back(EVERYTHING, "other")
        lease = await run_job(store, gone)
        [claimed] = await take(store)
        disabled = noted(claimed, DeliveryState.FAILED, health=EndpointHealth(NOW, NOW, "gone"))
        await store.webhooks.record_deliveries([disabled])
        await settle(store, lease, Succeeded("1"))
        await run_job(store, other)
        assert await told(store, gone.id) == ["job.running"]
        assert await told(store, other.id) == ["job.running"]

    async def test_what_is_pending_for_a_deleted_endpoint_comes_without_it(
        self, store: Store
    ) -> None:
        """A delivery to a deleted endpoint is claimed without one, so the sender can drop it."""
        endpoint = await put(store)
        await ended_job(store)
        await store.webhooks.delete_endpoint(TENANT, endpoint.id)
        [claimed] = await take(store)
        assert claimed.endpoint is None

    async def test_a_delivery_is_sent_again_on_demand(self, store: Store) -> None:
        """Redelivery restarts the retry schedule; the attempt number keeps counting."""
        await put(store)
        job_id = await ended_job(store)
        await delivered(store, *await take(store))
        [done] = await of_job(store, job_id)
        unknown = done.key._replace(seq=99)
        another = done.key._replace(tenant="another")
        assert await store.webhooks.redeliver([done.key, unknown, another], NOW + 7) == 1
        [claimed] = await take(store, NOW + 7)
        assert (claimed.delivery.tries, claimed.delivery.attempts) == (1, 2)
        assert claimed.delivery.log == done.log

    async def test_deliveries_are_listed_newest_first(self, store: Store) -> None:
        """Deliveries can be listed by endpoint, job and state, in pages, within one tenant."""
        endpoint = await put(store)
        ids = []
        for moment in range(5):
            job = new_job()
            await store.jobs.submit(job, NOW)
            await store.jobs.cancel(TENANT, job.id, NOW + moment // 2)  # some at the same time
            ids.append(job.id)
        await delivered(store, (await take(store))[0])
        seen: list[str] = []
        before = None
        while page := await store.webhooks.list_deliveries(
            DeliveryFilter(TENANT, endpoint.id, before=before, limit=2)
        ):
            seen += [each.key.job_id for each in page]
            before = (page[-1].at, page[-1].key)
        assert seen == ids[::-1]
        done = DeliveryFilter(TENANT, endpoint.id, state=DeliveryState.DELIVERED)
        assert [each.key.job_id for each in await store.webhooks.list_deliveries(done)] == ids[:1]
        assert await store.webhooks.list_deliveries(DeliveryFilter("another", endpoint.id)) == []
        assert await of_job(store, ids[0], tenant="another") == []
        assert await of_job(store, ids[0], state=DeliveryState.PENDING) == []

    async def test_a_jobs_deliveries_come_in_pages(self, store: Store) -> None:
        """Deliveries of a job are ordered by event number, then by endpoint."""
        for _ in range(2):
            await put(store, events=EVERYTHING)
        lease = await run_job(store, called_back(EVERYTHING))
        await settle(store, lease, Succeeded("1"))
        everything = (await of_job(store, lease.job_id))[::-1]
        assert len(everything) == 6
        seen: list[WebhookDelivery] = []
        while page := await store.webhooks.list_deliveries(
            DeliveryFilter(
                TENANT,
                job_id=lease.job_id,
                before=(seen[-1].at, seen[-1].key) if seen else None,
                limit=4,
            )
        ):
            seen += page
        assert seen == everything

    async def test_deliveries_go_with_their_job(self, store: Store) -> None:
        """Deleting a job deletes its deliveries, even pending ones; the receipt counts them."""
        await put(store)
        lease = await run_job(store, called_back())
        await settle(store, lease, Succeeded("1"))
        assert (await store.jobs.delete(TENANT, lease.job_id, NOW)).deliveries == 2
        assert await of_job(store, lease.job_id) == []
        assert await take(store) == []

    async def test_retention_waits_for_what_is_pending(self, store: Store) -> None:
        """A sweep keeps an expired job until its deliveries are no longer pending."""
        await put(store)
        job_id = await ended_job(store)
        late = NOW + 365 * 86_400_000
        assert (await store.maintenance.sweep(late)).deleted == 0
        assert json.loads((await of_job(store, job_id))[0].event)["state"] == "succeeded"
        await delivered(store, *await take(store))
        assert (await store.maintenance.sweep(late)).deleted == 1
        assert await of_job(store, job_id) == []
