"""Webhooks: an outbox that is one with the transitions, handed out by lanes, noted by attempt."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from coatcheck.model.event import EventType, NewEvent
from coatcheck.model.job import NewJob, Progress
from coatcheck.model.outcome import Cancelled, Errored, GaveUp, Released, Succeeded, Waiting
from coatcheck.model.webhook import (
    OWN,
    Callback,
    Delivery,
    DeliveryKey,
    DeliveryState,
    Endpoint,
    Secret,
    Try,
)
from coatcheck.store.base import BATCH_LIMIT, Idempotency, Report, Settlement, Store, Topic
from coatcheck.store.webhooks import DeliveryClaim, DeliveryFilter, Health, Noted
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    TENANT,
    WORKER,
    Conformance,
    claim,
    new_id,
    new_job,
    reclaim,
    run_job,
    settle,
)
from coatcheck.testing.conformance.waking import wakes

EVERYTHING = "cancelled failed queued running succeeded waiting"
ENDS = "cancelled failed succeeded"
LEASE = 60_000


def new_endpoint(**fields: Any) -> Endpoint:
    """Return a tenant's endpoint that wants to hear of every end."""
    id_ = fields.pop("id", None) or new_id()
    known = Endpoint(TENANT, id_, "https://example.com/hook", f"lane-{id_}", ENDS, NOW)
    return replace(known, **fields)


async def put(store: Store, **fields: Any) -> Endpoint:
    """Write an endpoint."""
    endpoint = new_endpoint(**fields)
    await store.put_endpoint(endpoint)
    return endpoint


def called_back(events: str = ENDS, lane: str = "own", **fields: Any) -> NewJob:
    """Return a job with an endpoint of its own."""
    return new_job(webhook=Callback("https://example.com/own", lane, events), **fields)


async def of_job(store: Store, job_id: str, **fields: Any) -> list[Delivery]:
    """Return a job's deliveries, the oldest first."""
    which = DeliveryFilter(fields.pop("tenant", TENANT), job_id=job_id, limit=1000, **fields)
    return (await store.list_deliveries(which))[::-1]


async def told(store: Store, job_id: str) -> list[str]:
    """Return the types of a job's deliveries, in order."""
    return [delivery.type for delivery in await of_job(store, job_id)]


async def take(store: Store, now: int = NOW, **fields: Any) -> list[DeliveryClaim]:
    """Have what is due handed out."""
    options = {"limit": 100, "per_lane": 100} | fields
    return (await store.claim_deliveries(now, now + LEASE, **options)).claims


def noted(claimed: DeliveryClaim, state: DeliveryState, **fields: Any) -> Noted:
    """Return what became of an attempt."""
    delivery = claimed.delivery
    log = (*delivery.log, Try(NOW, 200, None, 3))
    return Noted(delivery.key, delivery.attempts, state, None, log)._replace(**fields)


async def delivered(store: Store, *claims: DeliveryClaim) -> None:
    """Note that deliveries were taken."""
    all_noted = [noted(each, DeliveryState.DELIVERED) for each in claims]
    assert await store.note_deliveries(all_noted) == [True] * len(claims)


async def ended_job(store: Store, **fields: Any) -> str:
    """Have a job succeed."""
    lease = await run_job(store, new_job(**fields))
    assert await settle(store, lease, Succeeded("1"))
    return lease.job_id


class EndpointConformance(Conformance):
    """Endpoints and their secrets."""

    async def test_an_endpoint_is_read_as_it_was_written(self, store: Store) -> None:
        """Read back, every member is what it was."""
        endpoint = await put(
            store,
            description="the shop's",
            failing_since=NOW - 5,
            disabled_at=NOW,
            disabled_why="gone",
        )
        assert await store.get_endpoint(TENANT, endpoint.id) == endpoint
        changed = replace(endpoint, url="http://other.example/", events="failed", disabled_at=None)
        await store.put_endpoint(changed)
        assert await store.get_endpoint(TENANT, endpoint.id) == changed

    async def test_endpoints_are_listed_by_id_each_tenant_its_own(self, store: Store) -> None:
        """A page goes on after the one before; a job's own endpoint is in none."""
        ids = [(await put(store)).id for _ in range(3)]
        await put(store, tenant="another")
        await store.submit(called_back(), NOW)
        first = await store.list_endpoints(TENANT, limit=2)
        rest = await store.list_endpoints(TENANT, first[-1].id, 2)
        assert [endpoint.id for endpoint in (*first, *rest)] == ids
        assert await store.get_endpoint("another", ids[0]) is None
        assert await store.get_endpoint(TENANT, OWN) is None

    async def test_an_endpoint_is_deleted_with_its_secrets(self, store: Store) -> None:
        """The second time there is nothing to delete."""
        endpoint = new_endpoint()
        await store.put_endpoint(endpoint, Secret("whsec_a", NOW))
        assert await store.delete_endpoint("another", endpoint.id) is False
        assert await store.delete_endpoint(TENANT, endpoint.id) is True
        assert await store.delete_endpoint(TENANT, endpoint.id) is False
        assert await store.get_endpoint(TENANT, endpoint.id) is None
        assert await store.secrets_of(TENANT, endpoint.id, NOW) == []

    async def test_a_new_secret_stands_beside_the_one_before_for_a_while(
        self, store: Store
    ) -> None:
        """Two at most: the newest, and until its time the one before."""
        endpoint = new_endpoint()
        await store.put_endpoint(endpoint, Secret("whsec_a", NOW))
        assert await store.put_secret(TENANT, endpoint.id, Secret("whsec_b", NOW + 1), NOW + 100)
        found = await store.secrets_of(TENANT, endpoint.id, NOW + 2)
        assert found == [Secret("whsec_b", NOW + 1), Secret("whsec_a", NOW, NOW + 100)]
        assert await store.secrets_of(TENANT, endpoint.id, NOW + 100) == found[:1]
        await store.put_secret(TENANT, endpoint.id, Secret("whsec_c", NOW + 3), NOW + 200)
        values = [each.value for each in await store.secrets_of(TENANT, endpoint.id, NOW + 4)]
        assert values == ["whsec_c", "whsec_b"]

    async def test_of_first_secrets_one_is_kept(self, store: Store) -> None:
        """Whoever comes second hears that there is one."""
        assert await store.put_secret(TENANT, OWN, Secret("whsec_a", NOW), NOW, first=True)
        assert not await store.put_secret(TENANT, OWN, Secret("whsec_b", NOW), NOW, first=True)
        assert await store.secrets_of(TENANT, OWN, NOW) == [Secret("whsec_a", NOW)]
        assert await store.secrets_of("another", OWN, NOW) == []


@pytest.mark.usefixtures("worker")
class DeliveryConformance(Conformance):
    """What transitions leave in the outbox, and how it is emptied."""

    async def test_nobody_is_told_where_nobody_listens(self, store: Store) -> None:
        """Without endpoints there are no deliveries."""
        job_id = await ended_job(store)
        assert await of_job(store, job_id) == []
        assert await store.claim_deliveries(NOW, NOW + LEASE, limit=9, per_lane=9) == ([], None)

    async def test_a_delivery_says_what_the_log_says(self, store: Store) -> None:
        """It carries the event's number, time and data, and is due at once."""
        endpoint = await put(store)
        job_id = await ended_job(store)
        last = (await store.events(TENANT, job_id, 0, 100))[-1]
        assert await of_job(store, job_id) == [
            Delivery(
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
        """Whatever brings a job there; that it begins as queued and is asked to stop is not."""
        await put(store, events=EVERYTHING)
        lease = await run_job(store)
        await settle(store, lease, Released(0))
        lease = await reclaim(store, lease.job_id)
        await settle(store, lease, Errored(BOOM, 0))
        lease = await reclaim(store, lease.job_id)
        await settle(store, lease, Waiting(None, (("event:0:go",),)))
        await store.send(TENANT, lease.job_id, "go", "1", NOW)
        lease = await reclaim(store, lease.job_id)
        await settle(store, lease, Waiting(NOW + 5, ()))
        lease = await reclaim(store, lease.job_id, now=NOW + 5)
        await settle(store, lease, GaveUp(BOOM))
        await store.resume(TENANT, lease.job_id, NOW)
        lease = await reclaim(store, lease.job_id)
        await store.cancel(TENANT, lease.job_id, NOW)
        await settle(store, lease, Cancelled())
        again = ["running", "queued"]
        waits = ["running", "waiting", "queued"]
        expected = [*again, *again, *waits, *waits, "running", "failed", "queued"]
        expected += ["running", "cancelled"]
        assert await told(store, lease.job_id) == [f"job.{state}" for state in expected]

    async def test_what_needs_no_lease_is_told_too(self, store: Store, worker: str) -> None:
        """Lost workers, passed deadlines, cancels of queued jobs and of children."""
        await put(store, events=EVERYTHING)
        lost, dead = await run_job(store), new_job()
        dead = dead._replace(terms=dead.terms._replace(deadline_at=NOW + 1))
        await store.remove_worker(worker, None, NOW)
        await store.submit(dead, NOW)
        await store.sweep(NOW + 1)
        await store.cancel(TENANT, lost.job_id, NOW)
        assert await told(store, lost.job_id) == ["job.running", "job.queued", "job.cancelled"]
        assert await told(store, dead.id) == ["job.failed"]

    async def test_many_that_are_settled_at_once_are_all_told_of(self, store: Store) -> None:
        """In one batch, with different ends, and with last words."""
        await put(store)
        jobs = [new_job() for _ in range(6)]
        await store.submit_batch(jobs, NOW)
        leases = [each.lease for each in await claim(store)]
        await store.settle([Settlement(lease, Succeeded("1")) for lease in leases[:2]], NOW)
        mixed = [
            Settlement(leases[2], Succeeded("1"), Report(phase="end")),
            Settlement(leases[3], GaveUp(BOOM)),
            Settlement(leases[4], Errored(BOOM, 0)),
        ]
        await store.settle(mixed, NOW)
        found = [await told(store, lease.job_id) for lease in leases]
        ok = ["job.succeeded"]
        assert found == [ok, ok, ok, ["job.failed"], [], []]

    async def test_an_endpoint_hears_of_what_it_wants_and_of_its_tenant_alone(
        self, store: Store
    ) -> None:
        """Neither another tenant's jobs, nor other states, nor anything while it is disabled."""
        wants = await put(store, events="succeeded")
        await put(store, events="failed")
        await put(store, tenant="another")
        await put(store, disabled_at=NOW)
        job_id = await ended_job(store)
        [delivery] = await of_job(store, job_id)
        assert delivery.key.endpoint == wants.id

    async def test_a_job_brings_its_own_endpoint(self, store: Store) -> None:
        """It is told of that job and no other, beside the tenant's."""
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
        """However the batch is written."""
        assert count <= BATCH_LIMIT
        jobs = [called_back("cancelled") for _ in range(count)]
        await store.submit_batch(jobs, NOW)
        await store.cancel(TENANT, jobs[-1].id, NOW)
        assert await told(store, jobs[-1].id) == ["job.cancelled"]

    async def test_a_job_under_a_key_brings_its_own(self, store: Store) -> None:
        """Also where it is submitted twice, and of two that ask for the key only the first."""
        job, loser = called_back("cancelled"), called_back("cancelled")
        once = Idempotency("key", "print", NOW + 1000)
        for _ in range(2):
            assert await store.submit(job, NOW, once) is None
        assert await store.submit(loser, NOW, once) is not None
        await store.cancel(TENANT, job.id, NOW)
        assert await told(store, job.id) == ["job.cancelled"]

    async def test_phases_are_told_to_those_who_want_to_hear_of_them(self, store: Store) -> None:
        """Each of a report, in order, as part of the report; also those of last words."""
        await put(store)
        job = called_back("phase succeeded")
        lease = await run_job(store, job)
        loading = NewEvent(EventType.PROGRESS, '{"phase": "loading"}')
        quoted = NewEvent(EventType.LOG, '{"phase": "in a log"}')
        said = Report(phase="working", events=(loading, quoted))
        assert await wakes(store, Topic.WEBHOOKS, store.report(lease, said, NOW))
        assert await store.report(lease, Report(Progress(1, 2, '"phase": "none"')), NOW)
        last = Report(Progress(2, 2, "of no concern"), phase="closing")
        await store.settle([Settlement(lease, Succeeded("1"), last)], NOW)
        found = await of_job(store, job.id)
        phases = [json.loads(each.event) for each in found if each.type == "job.phase"]
        assert phases == [{"phase": name} for name in ("loading", "working", "closing")]
        assert [each.type for each in found] == [*["job.phase"] * 3, *["job.succeeded"] * 2]
        log = {event.seq: event.data for event in await store.events(TENANT, job.id, 0, 100)}
        assert [json.loads(log[each.key.seq])["phase"] for each in found[:3]] == [
            *("loading", "working", "closing")
        ]

    async def test_a_sender_is_woken(self, store: Store) -> None:
        """By whatever leaves something in the outbox."""
        await put(store, events=EVERYTHING)
        job, other = new_job(), new_job()
        await store.submit(job, NOW)
        assert await wakes(store, Topic.WEBHOOKS, claim(store))
        [held] = await store.held_by(WORKER)
        assert await wakes(store, Topic.WEBHOOKS, settle(store, held.lease, Errored(BOOM, 0)))
        lease = await reclaim(store, job.id)
        assert await wakes(store, Topic.WEBHOOKS, settle(store, lease, Succeeded("1")))
        await store.submit(other, NOW)
        assert await wakes(store, Topic.WEBHOOKS, store.cancel(TENANT, other.id, NOW))
        [cancelled] = await of_job(store, other.id)
        assert await wakes(store, Topic.WEBHOOKS, store.redeliver([cancelled.key], NOW))

    async def test_what_is_handed_out_is_not_handed_out_again_before_its_lease_is_over(
        self, store: Store
    ) -> None:
        """With whom to call, and what of the job is told."""
        endpoint = await put(store)
        job_id = await ended_job(store, traceparent="00-trace")
        [claimed] = await take(store)
        assert (claimed.delivery.key.job_id, claimed.lane) == (job_id, endpoint.lane)
        assert (claimed.endpoint, claimed.kind) == (endpoint, "mail")
        assert claimed.traceparent == "00-trace"
        assert (claimed.delivery.attempts, claimed.delivery.tries) == (1, 1)
        assert claimed.delivery.due_at == NOW + LEASE
        nothing = await store.claim_deliveries(NOW, NOW + LEASE, limit=9, per_lane=9)
        assert nothing == ([], NOW + LEASE)
        [again] = await take(store, NOW + LEASE)
        assert (again.delivery.key, again.delivery.attempts) == (claimed.delivery.key, 2)

    async def test_the_first_of_every_lane_comes_before_the_second_of_any(
        self, store: Store
    ) -> None:
        """However many wait in one, and since when."""
        jobs = [called_back("cancelled", "slow") for _ in range(20)]
        await store.submit_batch([*jobs, last := called_back("cancelled", "quick")], NOW)
        for moment, job in enumerate([*jobs, last]):
            await store.cancel(TENANT, job.id, NOW + moment)
        claims = await take(store, NOW + 50, limit=3, per_lane=2)
        assert [each.lane for each in claims] == ["slow", "quick", "slow"]
        assert claims[1].delivery.key.job_id == last.id
        claims = await take(store, NOW + 50, limit=9, per_lane=4)
        assert [each.delivery.key.job_id for each in claims] == [job.id for job in jobs[2:6]]
        assert await take(store, NOW + 50, passing_over=["slow", "quick"]) == []

    async def test_what_became_of_an_attempt_is_noted(self, store: Store) -> None:
        """Taken, to be tried again, or given up: with the tries."""
        endpoint = await put(store)
        job_ids = [await ended_job(store) for _ in range(3)]
        claims = await take(store)
        states = [DeliveryState.DELIVERED, DeliveryState.PENDING, DeliveryState.FAILED]
        dues = [None, NOW + 5000, None]
        all_noted = [
            noted(each, state, due_at=due)
            for each, state, due in zip(claims, states, dues, strict=True)
        ]
        assert await store.note_deliveries(all_noted) == [True] * 3
        for job_id, state, due in zip(job_ids, states, dues, strict=True):
            [found] = await of_job(store, job_id)
            assert (found.state, found.due_at, found.tries) == (state, due, 1)
            assert found.log == (Try(NOW, 200, None, 3),)
            assert await store.get_delivery(found.key) == found
        nothing = await store.claim_deliveries(NOW, NOW, limit=9, per_lane=9)
        assert nothing == ([], NOW + 5000)
        assert (await store.get_endpoint(TENANT, endpoint.id)) == endpoint

    async def test_who_comes_after_another_try_changes_nothing(self, store: Store) -> None:
        """The attempt that is spoken of must be the newest."""
        await put(store)
        await ended_job(store)
        [old] = await take(store)
        [new] = await take(store, NOW + LEASE)
        stale = noted(old, DeliveryState.FAILED, health=Health(NOW, NOW, "late"))
        assert await store.note_deliveries([stale]) == [False]
        assert await store.note_deliveries([noted(new, DeliveryState.DELIVERED)]) == [True]
        found = await store.get_delivery(old.delivery.key)
        assert found is not None
        assert found.state is DeliveryState.DELIVERED
        [endpoint] = await store.list_endpoints(TENANT)
        assert endpoint.disabled_at is None

    async def test_how_an_endpoint_does_is_noted_with_it(self, store: Store) -> None:
        """Since when it fails, that it is well again, that it is disabled."""
        endpoint = await put(store)
        for health in (Health(NOW), Health(None), Health(NOW - 9, NOW, "gone")):
            await ended_job(store)
            [claimed] = await take(store)
            await store.note_deliveries([noted(claimed, DeliveryState.DELIVERED, health=health)])
            found = await store.get_endpoint(TENANT, endpoint.id)
            assert found is not None
            assert (found.failing_since, found.disabled_at, found.disabled_why) == health
        assert await told(store, await ended_job(store)) == []

    async def test_a_jobs_own_endpoint_is_disabled_alone(self, store: Store) -> None:
        """Another job's is not concerned."""
        gone, other = called_back(EVERYTHING), called_back(EVERYTHING, "other")
        lease = await run_job(store, gone)
        [claimed] = await take(store)
        disabled = noted(claimed, DeliveryState.FAILED, health=Health(NOW, NOW, "gone"))
        await store.note_deliveries([disabled])
        await settle(store, lease, Succeeded("1"))
        await run_job(store, other)
        assert await told(store, gone.id) == ["job.running"]
        assert await told(store, other.id) == ["job.running"]

    async def test_what_is_pending_for_a_deleted_endpoint_comes_without_it(
        self, store: Store
    ) -> None:
        """So that whoever sends can call it off."""
        endpoint = await put(store)
        await ended_job(store)
        await store.delete_endpoint(TENANT, endpoint.id)
        [claimed] = await take(store)
        assert claimed.endpoint is None

    async def test_a_delivery_is_sent_again_on_demand(self, store: Store) -> None:
        """From the beginning of the schedule; attempts go on counting."""
        await put(store)
        job_id = await ended_job(store)
        await delivered(store, *await take(store))
        [done] = await of_job(store, job_id)
        unknown = done.key._replace(seq=99)
        another = done.key._replace(tenant="another")
        assert await store.redeliver([done.key, unknown, another], NOW + 7) == 1
        [claimed] = await take(store, NOW + 7)
        assert (claimed.delivery.tries, claimed.delivery.attempts) == (1, 2)
        assert claimed.delivery.log == done.log

    async def test_deliveries_are_listed_newest_first(self, store: Store) -> None:
        """An endpoint's and a job's, in pages, by state; each tenant its own."""
        endpoint = await put(store)
        ids = []
        for moment in range(5):
            job = new_job()
            await store.submit(job, NOW)
            await store.cancel(TENANT, job.id, NOW + moment // 2)  # some at the same time
            ids.append(job.id)
        await delivered(store, (await take(store))[0])
        seen: list[str] = []
        before = None
        while page := await store.list_deliveries(
            DeliveryFilter(TENANT, endpoint.id, before=before, limit=2)
        ):
            seen += [each.key.job_id for each in page]
            before = (page[-1].at, page[-1].key)
        assert seen == ids[::-1]
        done = DeliveryFilter(TENANT, endpoint.id, state=DeliveryState.DELIVERED)
        assert [each.key.job_id for each in await store.list_deliveries(done)] == ids[:1]
        assert await store.list_deliveries(DeliveryFilter("another", endpoint.id)) == []
        assert await of_job(store, ids[0], tenant="another") == []
        assert await of_job(store, ids[0], state=DeliveryState.PENDING) == []

    async def test_a_jobs_deliveries_come_in_pages(self, store: Store) -> None:
        """By the number of the event, then by endpoint."""
        for _ in range(2):
            await put(store, events=EVERYTHING)
        lease = await run_job(store, called_back(EVERYTHING))
        await settle(store, lease, Succeeded("1"))
        everything = (await of_job(store, lease.job_id))[::-1]
        assert len(everything) == 6
        seen: list[Delivery] = []
        while page := await store.list_deliveries(
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
        """By hand at once, also those that are pending; the receipt counts them."""
        await put(store)
        lease = await run_job(store, called_back())
        await settle(store, lease, Succeeded("1"))
        assert (await store.delete(TENANT, lease.job_id, NOW)).deliveries == 2
        assert await of_job(store, lease.job_id) == []
        assert await take(store) == []

    async def test_retention_waits_for_what_is_pending(self, store: Store) -> None:
        """Until it is over; then the job goes with all of it."""
        await put(store)
        job_id = await ended_job(store)
        late = NOW + 365 * 86_400_000
        assert (await store.sweep(late)).deleted == 0
        assert json.loads((await of_job(store, job_id))[0].event)["state"] == "succeeded"
        await delivered(store, *await take(store))
        assert (await store.sweep(late)).deleted == 1
        assert await of_job(store, job_id) == []
