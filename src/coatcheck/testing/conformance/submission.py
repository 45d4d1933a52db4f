"""Conformance tests for submitting jobs and reading one job."""

from __future__ import annotations

import pytest

from coatcheck.errors import Conflict, Gone, NotFound
from coatcheck.model.event import EventType
from coatcheck.model.job import JobInsert, Terms
from coatcheck.model.outcome import Succeeded
from coatcheck.model.state import State
from coatcheck.store.base import Store
from coatcheck.testing.conformance.arrange import (
    NOW,
    TENANT,
    Conformance,
    claim,
    everything,
    new_id,
    new_job,
    run_job,
    settle,
    states_of,
)


class SubmitConformance(Conformance):
    """Tests for `submit` and `get`."""

    async def test_a_submitted_job_is_queued(self, store: Store) -> None:
        """A new job is queued, without an attempt, a fence or a worker."""
        job = new_job("mail", input='{"to":"ada"}')
        await store.jobs.submit(job, NOW)

        found = await store.jobs.get(TENANT, job.id)
        assert found.state is State.QUEUED
        assert found.attempt == 0
        assert found.fence == 0
        assert found.worker is None
        assert not found.cancel_requested

    async def test_its_log_begins_with_its_submission(self, store: Store) -> None:
        """The first event has number 1 and the time of the submission."""
        job = new_job()
        await store.jobs.submit(job, NOW + 5)
        [event] = await store.jobs.list_events(TENANT, job.id, 0, 10)
        assert (event.seq, event.type, event.at) == (1, EventType.STATE, NOW + 5)
        assert await states_of(store, job.id) == ["queued"]

    async def test_every_field_reads_back_as_it_was_handed_in(
        self, store: Store, worker: str
    ) -> None:
        """Every field is returned unchanged by `get` and by `claim`."""
        job = full_job()
        await store.jobs.submit(job, NOW)

        found = await store.jobs.get("acme", job.id)
        assert found.labels == {"team": "größe ✓", "quote": 'it\'s "x"'}
        for name in ("tenant", "id", "surface", "public_id", "kind", "queue", "priority", "terms"):
            assert getattr(found, name) == getattr(job, name), name
        for name in ("limit_key", "correlation_id", "traceparent", "created_at", "run_at"):
            assert getattr(found, name) == getattr(job, name), name
        for name in ("started_at", "finished_at", "expires_at", "progress", "phase", "reason"):
            assert getattr(found, name) is None, name
        assert (found.error, found.result) == (None, None)

        [claimed] = await claim(store, "chart")
        assert claimed.input == job.input
        assert claimed.terms == job.terms
        assert (claimed.kind, claimed.surface, claimed.queue) == ("chart", "render", "slow")
        assert (claimed.correlation_id, claimed.traceparent) == ("c-1", "00-abc-def-01")

    async def test_an_id_that_is_there_is_left_as_it_is(self, store: Store, worker: str) -> None:
        """A repeated submit of an id leaves the stored job unchanged."""
        job = new_job(input='"first"')
        await store.jobs.submit(job, NOW)
        await store.jobs.submit(job._replace(input='"second"', kind="chart", priority=9), NOW + 1)

        found = await store.jobs.get(TENANT, job.id)
        assert (found.kind, found.priority, found.last_event) == ("mail", 0, 1)
        [claimed] = await claim(store)
        assert claimed.input == '"first"'

    async def test_a_repeated_submit_does_not_revive_a_job_that_has_ended(
        self, store: Store, worker: str
    ) -> None:
        """A repeated submit of a finished job leaves its result unchanged."""
        job = new_job(public_id="order-1")
        lease = await run_job(store, job)
        await settle(store, lease, Succeeded("42"), NOW)
        before = await store.jobs.get(TENANT, job.id)

        await store.jobs.submit(job, NOW + 1)
        assert await store.jobs.get(TENANT, job.id) == before
        assert await claim(store) == []

    async def test_a_job_is_found_by_its_public_id(self, store: Store) -> None:
        """A job can be read by its public id."""
        job = new_job(public_id="r_42")
        await store.jobs.submit(job, NOW)
        assert (await store.jobs.get(TENANT, "r_42")).id == job.id
        assert (await store.jobs.get(TENANT, job.id)).public_id == "r_42"

    async def test_without_a_public_id_the_id_is_shown(self, store: Store) -> None:
        """The public id of a job defaults to its id."""
        job = new_job()
        await store.jobs.submit(job, NOW)
        assert (await store.jobs.get(TENANT, job.id)).public_id == job.id

    async def test_a_public_id_that_is_taken_is_refused(self, store: Store) -> None:
        """A public id in use raises `Conflict` and writes nothing."""
        first, second = new_job(public_id="r_42"), new_job(public_id="r_42")
        await store.jobs.submit(first, NOW)
        before = await store.jobs.get(TENANT, first.id)
        with pytest.raises(Conflict):
            await store.jobs.submit(second, NOW)

        assert await everything(store) == [before]
        with pytest.raises(NotFound):
            await store.jobs.get(TENANT, second.id)
        assert await store.jobs.list_events(TENANT, second.id, 0, 10) == []

    async def test_a_refused_job_can_be_submitted_under_another_public_id(
        self, store: Store
    ) -> None:
        """A rejected job leaves nothing behind and can be submitted with another public id."""
        await store.jobs.submit(new_job(public_id="r_42"), NOW)
        job = new_job(public_id="r_42")
        with pytest.raises(Conflict):
            await store.jobs.submit(job, NOW)
        await store.jobs.submit(job._replace(public_id="r_43"), NOW)
        assert (await store.jobs.get(TENANT, "r_43")).id == job.id

    async def test_repeating_a_submit_with_its_public_id_is_no_conflict(self, store: Store) -> None:
        """Repeating a submit with the same id and public id is no conflict."""
        job = new_job(public_id="r_42")
        await store.jobs.submit(job, NOW)
        await store.jobs.submit(job, NOW)
        assert len(await everything(store)) == 1

    async def test_tenants_never_see_each_other(self, store: Store) -> None:
        """Another tenant's job is not found, neither by its id nor by its public id."""
        job = new_job(tenant="acme", public_id="r_42")
        await store.jobs.submit(job, NOW)
        for job_id in (job.id, "r_42"):
            with pytest.raises(NotFound):
                await store.jobs.get("umbrella", job_id)
        assert await store.jobs.list_events("umbrella", job.id, 0, 10) == []
        assert await everything(store, "umbrella") == []
        assert await store.jobs.get_many([("umbrella", job.id)]) == []

    async def test_two_tenants_may_use_the_same_ids(self, store: Store, worker: str) -> None:
        """Job ids and public ids are unique only within a tenant."""
        job = new_job(public_id="r_42", tenant="acme", input='"a"')
        await store.jobs.submit(job, NOW)
        await store.jobs.submit(job._replace(tenant="umbrella", input='"u"'), NOW)

        claims = {one.lease.tenant: one for one in await claim(store)}
        assert {tenant: one.input for tenant, one in claims.items()} == {
            "acme": '"a"',
            "umbrella": '"u"',
        }
        await settle(store, claims["acme"].lease, Succeeded('"done"'), NOW)
        assert (await store.jobs.get("acme", "r_42")).result == '"done"'
        assert (await store.jobs.get("umbrella", "r_42")).state is State.RUNNING

    async def test_an_unknown_job_is_not_found(self, store: Store) -> None:
        """An unknown job raises `NotFound`, not `Gone`."""
        for job_id in (new_id(), "r_nowhere", ""):
            with pytest.raises(NotFound) as caught:
                await store.jobs.get(TENANT, job_id)
            assert not isinstance(caught.value, Gone)

    async def test_large_and_unusual_inputs_survive(self, store: Store, worker: str) -> None:
        """Large and unusual inputs are stored unchanged."""
        inputs = ['"' + "x" * 200_000 + '"', '"\U0001f9e5 ünï"', '"\\u0000"', "null", "[1, 2,3 ]"]
        for text in inputs:
            await store.jobs.submit(new_job(input=text), NOW)
        assert [one.input for one in await claim(store)] == inputs


def full_job() -> JobInsert:
    """Return a job in which every field differs from its default."""
    return JobInsert(
        id=new_id(),
        kind="chart",
        input='{"a": [1, 2.5, null, "ß"]}',
        created_at=NOW,
        run_at=NOW - 1,
        tenant="acme",
        surface="render",
        public_id="r_1",
        queue="slow",
        priority=-3,
        terms=Terms(
            max_attempts=7,
            on_lost="fail",
            timeout_ms=1,
            keep_succeeded_ms=2,
            keep_failed_ms=3,
            deadline_at=NOW + 4,
        ),
        labels='{"team":"größe ✓","quote":"it\'s \\"x\\""}',
        limit_key="customer-9",
        correlation_id="c-1",
        traceparent="00-abc-def-01",
    )
