"""Conformance tests for the webhook outbox: a delivery commits together with its transition."""

from __future__ import annotations

import json

import pytest

from coatcheck.model.event import EventType, NewJobEvent
from coatcheck.model.job import Progress
from coatcheck.model.outcome import Cancelled, Errored, GaveUp, Released, Succeeded, Waiting
from coatcheck.model.webhook import OWN, DeliveryKey, DeliveryState, WebhookDelivery
from coatcheck.store.base import BATCH_LIMIT, Idempotency, Report, Settlement, Store, Topic
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    TENANT,
    WORKER,
    Conformance,
    claim,
    new_job,
    reclaim,
    run_job,
    settle,
)
from coatcheck.testing.conformance.wakeups import wakes
from coatcheck.testing.conformance.webhooks import (
    EVERYTHING,
    called_back,
    ended_job,
    of_job,
    put,
    told,
)


@pytest.mark.usefixtures("worker")
class OutboxConformance(Conformance):
    """Tests for the deliveries that transitions create."""

    async def test_nobody_is_told_where_nobody_listens(self, store: Store) -> None:
        """A transition creates no deliveries if there are no endpoints."""
        job_id = await ended_job(store)
        assert await of_job(store, job_id) == []
        assert await store.webhooks.list_delivery_lanes() == []

    async def test_a_delivery_says_what_the_log_says(self, store: Store) -> None:
        """A delivery has the number, time and data of its event and is due immediately."""
        endpoint = await put(store)
        job_id = await ended_job(store)
        last = (await store.jobs.list_events(TENANT, job_id, 0, 100))[-1]
        assert await of_job(store, job_id) == [
            WebhookDelivery(
                key=DeliveryKey(TENANT, job_id, last.seq, endpoint.id),
                type="job.succeeded",
                at=NOW,
                event=last.data,
                state=DeliveryState.PENDING,
                attempts=0,
                tries=0,
                due_at=NOW,
            )
        ]

    async def test_every_new_state_is_told(self, store: Store) -> None:
        """Each transition creates a delivery, except the initial `queued` and a cancel request."""
        await put(store, events=EVERYTHING)
        lease = await run_job(store)
        await settle(store, lease, Released(0))
        lease = await reclaim(store, lease.job_id)
        await settle(store, lease, Errored(BOOM, 0))
        lease = await reclaim(store, lease.job_id)
        await settle(store, lease, Waiting(None, (("event:0:go",),)))
        await store.jobs.send_event(TENANT, lease.job_id, "go", "1", NOW)
        lease = await reclaim(store, lease.job_id)
        await settle(store, lease, Waiting(NOW + 5, ()))
        lease = await reclaim(store, lease.job_id, now=NOW + 5)
        await settle(store, lease, GaveUp(BOOM))
        await store.jobs.resume(TENANT, lease.job_id, NOW)
        lease = await reclaim(store, lease.job_id)
        await store.jobs.cancel(TENANT, lease.job_id, NOW)
        await settle(store, lease, Cancelled())
        again = ["running", "queued"]
        waits = ["running", "waiting", "queued"]
        expected = [*again, *again, *waits, *waits, "running", "failed", "queued"]
        expected += ["running", "cancelled"]
        assert await told(store, lease.job_id) == [f"job.{state}" for state in expected]

    async def test_what_needs_no_lease_is_told_too(self, store: Store, worker: str) -> None:
        """Lost workers, passed deadlines and cancelled queued jobs create deliveries."""
        await put(store, events=EVERYTHING)
        lost, dead = await run_job(store), new_job()
        dead = dead._replace(terms=dead.terms._replace(deadline_at=NOW + 1))
        await store.workers.remove_worker(worker, None, NOW)
        await store.jobs.submit(dead, NOW)
        await store.maintenance.sweep(NOW + 1)
        await store.jobs.cancel(TENANT, lost.job_id, NOW)
        assert await told(store, lost.job_id) == ["job.running", "job.queued", "job.cancelled"]
        assert await told(store, dead.id) == ["job.failed"]

    async def test_many_that_are_settled_at_once_are_all_told_of(self, store: Store) -> None:
        """Jobs settled in one call each create deliveries, whatever their outcomes and reports."""
        await put(store)
        jobs = [new_job() for _ in range(6)]
        await store.jobs.submit_batch(jobs, NOW)
        leases = [each.lease for each in await claim(store)]
        await store.workers.settle([Settlement(lease, Succeeded("1")) for lease in leases[:2]], NOW)
        mixed = [
            Settlement(leases[2], Succeeded("1"), Report(phase="end")),
            Settlement(leases[3], GaveUp(BOOM)),
            Settlement(leases[4], Errored(BOOM, 0)),
        ]
        await store.workers.settle(mixed, NOW)
        found = [await told(store, lease.job_id) for lease in leases]
        ok = ["job.succeeded"]
        assert found == [ok, ok, ok, ["job.failed"], [], []]

    async def test_an_endpoint_hears_of_what_it_wants_and_of_its_tenant_alone(
        self, store: Store
    ) -> None:
        """An enabled endpoint gets only the events that it selects, of its own tenant."""
        wants = await put(store, events="succeeded")
        await put(store, events="failed")
        await put(store, tenant="another")
        await put(store, disabled_at=NOW)
        job_id = await ended_job(store)
        [delivery] = await of_job(store, job_id)
        assert delivery.key.endpoint == wants.id

    async def test_a_job_brings_its_own_endpoint(self, store: Store) -> None:
        """A job's own endpoint gets that job's events, in addition to the tenant's endpoints."""
        endpoint = await put(store)
        job = called_back("running succeeded")
        lease = await run_job(store, job)
        await settle(store, lease, Succeeded("1"))
        other = await ended_job(store)
        found = [(each.type, each.key.endpoint) for each in await of_job(store, job.id)]
        assert found == [
            ("job.running", OWN),
            ("job.succeeded", OWN),
            ("job.succeeded", endpoint.id),
        ]
        assert await told(store, other) == ["job.succeeded"]

    @pytest.mark.parametrize("count", [2, 250])
    async def test_jobs_of_a_batch_bring_theirs(self, store: Store, count: int) -> None:
        """Jobs of small and large batches keep their own endpoints."""
        assert count <= BATCH_LIMIT
        jobs = [called_back("cancelled") for _ in range(count)]
        await store.jobs.submit_batch(jobs, NOW)
        await store.jobs.cancel(TENANT, jobs[-1].id, NOW)
        assert await told(store, jobs[-1].id) == ["job.cancelled"]

    async def test_a_job_under_a_key_brings_its_own(self, store: Store) -> None:
        """A job submitted twice with one key has its own endpoint once; a rejected job has none."""
        job, loser = called_back("cancelled"), called_back("cancelled")
        once = Idempotency("key", "print", NOW + 1000)
        for _ in range(2):
            assert await store.jobs.submit(job, NOW, once) is None
        assert await store.jobs.submit(loser, NOW, once) is not None
        await store.jobs.cancel(TENANT, job.id, NOW)
        assert await told(store, job.id) == ["job.cancelled"]

    async def test_phases_are_told_to_those_who_want_to_hear_of_them(self, store: Store) -> None:
        """Each phase of a report creates a delivery, in order, including the final report's."""
        await put(store)
        job = called_back("phase succeeded")
        lease = await run_job(store, job)
        loading = NewJobEvent(EventType.PROGRESS, '{"phase": "loading"}')
        quoted = NewJobEvent(EventType.LOG, '{"phase": "in a log"}')
        said = Report(phase="working", events=(loading, quoted))
        assert await wakes(store, Topic.WEBHOOKS, store.workers.report(lease, said, NOW))
        assert await store.workers.report(lease, Report(Progress(1, 2, '"phase": "none"')), NOW)
        last = Report(Progress(2, 2, "of no concern"), phase="closing")
        await store.workers.settle([Settlement(lease, Succeeded("1"), last)], NOW)
        found = await of_job(store, job.id)
        phases = [json.loads(each.event) for each in found if each.type == "job.phase"]
        assert phases == [{"phase": name} for name in ("loading", "working", "closing")]
        assert [each.type for each in found] == [*["job.phase"] * 3, *["job.succeeded"] * 2]
        log = {
            event.seq: event.data for event in await store.jobs.list_events(TENANT, job.id, 0, 100)
        }
        assert [json.loads(log[each.key.seq])["phase"] for each in found[:3]] == [
            *("loading", "working", "closing")
        ]

    async def test_a_sender_is_woken(self, store: Store) -> None:
        """Every write that creates a delivery wakes the webhook sender."""
        await put(store, events=EVERYTHING)
        job, other = new_job(), new_job()
        await store.jobs.submit(job, NOW)
        assert await wakes(store, Topic.WEBHOOKS, claim(store))
        [held] = await store.workers.list_held_jobs(WORKER)
        assert await wakes(store, Topic.WEBHOOKS, settle(store, held.lease, Errored(BOOM, 0)))
        lease = await reclaim(store, job.id)
        assert await wakes(store, Topic.WEBHOOKS, settle(store, lease, Succeeded("1")))
        await store.jobs.submit(other, NOW)
        assert await wakes(store, Topic.WEBHOOKS, store.jobs.cancel(TENANT, other.id, NOW))
        [cancelled] = await of_job(store, other.id)
        assert await wakes(store, Topic.WEBHOOKS, store.webhooks.redeliver([cancelled.key], NOW))
