"""Conformance tests for jobs that wait for children or for events."""

from __future__ import annotations

import asyncio

import pytest

from coatcheck.errors import Conflict, Gone, KeyReused, NotFound
from coatcheck.model.job import JobInsert, Terms
from coatcheck.model.outcome import Cancelled, GaveUp, Outcome, Succeeded, Waiting
from coatcheck.model.state import Reason, State
from coatcheck.model.step import SentEvent, child_finished, event_sent
from coatcheck.store.base import Report, Settlement, Store
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    TENANT,
    Conformance,
    child_of,
    claim,
    job_of,
    new_id,
    new_job,
    reclaim,
    run_job,
    settle,
    spawn,
    states_of,
)


class WaitForChildrenConformance(Conformance):
    """Tests for `settle` with `Waiting` on groups of children."""

    async def test_it_goes_on_when_all_of_a_group_have_ended(
        self, store: Store, worker: str
    ) -> None:
        """A job wakes when the last child of its group has finished, whatever the outcomes."""
        lease = await run_job(store)
        children = await spawn(store, lease, 4)
        await settle(store, lease, Waiting(None, (_all_of(*children),)))
        leases = [each.lease for each in await claim(store, "child")]
        ends: list[Outcome] = [Succeeded("1"), GaveUp(BOOM), Cancelled()]
        for child, outcome in zip(leases, ends, strict=False):
            await settle(store, child, outcome, NOW + 1)
            assert (await job_of(store, lease)).state is State.WAITING
        await settle(store, leases[3], Succeeded("1"), NOW + 2)
        job = await job_of(store, lease)
        assert (job.state, job.reason, job.run_at) == (State.QUEUED, Reason.WOKEN, NOW + 2)
        again = (await claim(store, now=NOW + 2))[0]
        assert (again.attempt, again.lease.fence) == (1, lease.fence + 1)

    async def test_one_as_late_as_its_child_is_not_woken_by_it(
        self, store: Store, worker: str
    ) -> None:
        """A sweep that expires both a child and its waiting parent does not wake the parent."""
        lease = await run_job(store, new_job(terms=Terms(deadline_at=NOW + 50)))
        [late] = await spawn(store, lease, terms=Terms(deadline_at=NOW + 10))
        await settle(store, lease, Waiting(None, (_all_of(late),)))
        said = (await job_of(store, lease)).last_event
        assert (await store.maintenance.sweep(NOW + 100)).expired == 2
        job = await job_of(store, lease)
        assert (job.state, job.reason, job.last_event) == (State.FAILED, Reason.EXPIRED, said + 1)

    async def test_it_goes_on_when_one_of_several_groups_is_there(
        self, store: Store, worker: str
    ) -> None:
        """A job wakes once when one of its groups is complete; the other groups are dropped."""
        lease = await run_job(store)
        first, second, third = await spawn(store, lease, 3)
        await settle(store, lease, Waiting(NOW + 90, (_all_of(first, second), _all_of(third))))
        leases = {each.lease.job_id: each.lease for each in await claim(store, "child")}
        await settle(store, leases[first.id], Succeeded("1"))
        assert (await job_of(store, lease)).state is State.WAITING
        await settle(store, leases[third.id], Succeeded("1"))
        again = await reclaim(store, lease.job_id)
        await settle(store, leases[second.id], Succeeded("1"))
        assert (await job_of(store, lease)).state is State.RUNNING
        await settle(store, again, Waiting(NOW + 500))
        assert await claim(store, now=NOW + 90) == []
        assert (await job_of(store, lease)).state is State.WAITING

    async def test_one_child_may_be_in_several_groups(self, store: Store, worker: str) -> None:
        """A child in several groups counts in each of them and wakes its parent once."""
        lease = await run_job(store)
        first, second = await spawn(store, lease, 2)
        await settle(store, lease, Waiting(None, (_all_of(first, second), _all_of(first))))
        [child, _] = await claim(store, "child")
        await settle(store, child.lease, Succeeded("1"))
        assert await states_of(store, lease.job_id) == ["queued", "running", "waiting", "queued"]

    async def test_children_that_had_ended_before_are_there(
        self, store: Store, worker: str
    ) -> None:
        """Children that finished before the wait count as finished."""
        lease = await run_job(store)
        first, second = await spawn(store, lease, 2)
        one, other = [each.lease for each in await claim(store, "child")]
        await settle(store, one, Succeeded("1"))
        await settle(store, lease, Waiting(None, (_all_of(first, second),)))
        assert (await job_of(store, lease)).state is State.WAITING
        await settle(store, other, Succeeded("1"))
        again = await reclaim(store, lease.job_id)
        await settle(store, again, Waiting(None, (_all_of(first, second),)), NOW + 1)
        job = await job_of(store, lease)
        assert (job.state, job.reason) == (State.QUEUED, Reason.WOKEN)

    async def test_a_child_that_is_gone_is_not_waited_for(self, store: Store, worker: str) -> None:
        """A child that is unknown or deleted counts as finished."""
        lease = await run_job(store)
        group = (child_finished(new_id()),)
        await settle(store, lease, Waiting(None, (group,)))
        assert (await job_of(store, lease)).state is State.QUEUED

    @pytest.mark.parametrize("how", ["cancel", "expire", "lose"])
    async def test_a_child_that_nobody_settles_ends_too(
        self, store: Store, worker: str, other_worker: str, how: str
    ) -> None:
        """A child that is cancelled, expired or lost wakes its parent."""
        lease = await run_job(store)
        child = child_of(lease)
        terms = child.terms._replace(max_attempts=1, deadline_at=NOW + 9)
        child = child._replace(terms=terms)
        await store.workers.report(lease, Report(children=(child,)), NOW)
        if how == "lose":
            await claim(store, "child", worker=other_worker)
        await settle(store, lease, Waiting(None, (_all_of(child),)))
        match how:
            case "cancel":
                await store.jobs.cancel(TENANT, child.id, NOW + 1)
            case "expire":
                await store.maintenance.sweep(NOW + 9)
            case "lose":
                await store.workers.remove_worker(other_worker, None, NOW + 1)
        assert (await store.jobs.get(TENANT, child.id)).state.is_terminal
        assert (await job_of(store, lease)).reason is Reason.WOKEN

    async def test_the_last_two_may_end_at_once(self, store: Store, worker: str) -> None:
        """Two children that finish concurrently wake their parent exactly once."""
        for _ in range(10):
            lease = await run_job(store)
            children = await spawn(store, lease, 2)
            await settle(store, lease, Waiting(None, (_all_of(*children),)))
            leases = [each.lease for each in await claim(store, "child")]
            await asyncio.gather(*(settle(store, child, Succeeded("1")) for child in leases))
            states = await states_of(store, lease.job_id)
            assert states == ["queued", "running", "waiting", "queued"]
            await settle(store, await reclaim(store, lease.job_id), Succeeded("1"))

    async def test_a_child_may_end_while_its_parent_begins_to_wait(
        self, store: Store, worker: str
    ) -> None:
        """A child that finishes while its parent starts to wait still wakes the parent."""
        for _ in range(10):
            lease = await run_job(store)
            [child] = await spawn(store, lease)
            held = await reclaim(store, child.id, "child")
            await asyncio.gather(
                settle(store, lease, Waiting(None, (_all_of(child),))),
                settle(store, held, Succeeded("1")),
            )
            again = await reclaim(store, lease.job_id)
            await settle(store, again, Succeeded("1"))

    async def test_ten_thousand_children(self, store: Store, worker: str) -> None:
        """A job can spawn 10,000 children in one write and wait for them as one group."""
        lease = await run_job(store)
        children = await spawn(store, lease, 10_000)
        await settle(store, lease, Waiting(None, (_all_of(*children),)))
        ended = 0
        while held := await claim(store, "child", limit=1_000):
            assert (await job_of(store, lease)).state is State.WAITING
            await store.workers.settle(
                [Settlement(each.lease, Succeeded("1")) for each in held], NOW
            )
            ended += len(held)
        assert ended == 10_000
        assert (await job_of(store, lease)).reason is Reason.WOKEN


class EventConformance(Conformance):
    """Tests for `send_event`, `list_sent_events`, and `settle` with `Waiting` on events."""

    async def test_an_event_wakes_who_waits_for_it(self, store: Store, worker: str) -> None:
        """An event wakes the job that waits for it and can be listed."""
        lease = await run_job(store)
        await settle(store, lease, Waiting(NOW + 90, ((event_sent("approved", 0),),)))
        job = await store.jobs.send_event(TENANT, lease.job_id, "approved", '{"by":"ada"}', NOW + 1)
        assert (job.state, job.reason, job.run_at) == (State.QUEUED, Reason.WOKEN, NOW + 1)
        assert await store.jobs.list_sent_events(TENANT, lease.job_id) == [
            SentEvent("approved", 0, '{"by":"ada"}', NOW + 1)
        ]
        assert await store.jobs.list_sent_events("somebody-else", lease.job_id) == []

    async def test_under_a_key_an_event_is_sent_once(self, store: Store, worker: str) -> None:
        """An event with a key is stored once, even after the job has finished.

        A different event with the same key raises `KeyReused`.
        """
        lease = await run_job(store)
        other = await run_job(store)
        for at in (1, 2):
            await store.jobs.send_event(TENANT, lease.job_id, "go", "1", NOW + at, "k")
        await store.jobs.send_event(TENANT, lease.job_id, "go", "1", NOW + 3, "another")
        await store.jobs.send_event(TENANT, other.job_id, "go", "1", NOW + 3, "k")
        for name, data in (("go", "2"), ("stop", "1")):
            with pytest.raises(KeyReused):
                await store.jobs.send_event(TENANT, lease.job_id, name, data, NOW + 4, "k")
        await settle(store, lease, Succeeded("1"))
        ended = await store.jobs.send_event(TENANT, lease.job_id, "go", "1", NOW + 5, "k")
        assert ended.state is State.SUCCEEDED
        numbers = [
            message.number for message in await store.jobs.list_sent_events(TENANT, lease.job_id)
        ]
        assert numbers == [0, 1]

    async def test_an_early_event_is_kept(self, store: Store, worker: str) -> None:
        """An event sent before the job waits for it ends that wait immediately."""
        job = new_job(run_at=NOW + 5)
        await store.jobs.submit(job, NOW)
        await store.jobs.send_event(TENANT, job.id, "approved", "1", NOW)
        lease = await reclaim(store, job.id, now=NOW + 5)
        await store.jobs.send_event(TENANT, job.id, "approved", "2", NOW + 5)
        for number in (0, 1):
            await settle(store, lease, Waiting(None, ((event_sent("approved", number),),)))
            lease = await reclaim(store, job.id, now=NOW + 6)
        await settle(store, lease, Waiting(None, ((event_sent("approved", 2),),)))
        assert (await job_of(store, lease)).state is State.WAITING

    async def test_events_are_numbered_by_name(self, store: Store, worker: str) -> None:
        """Events are numbered from 0 for each name and job."""
        first, second = await run_job(store), await run_job(store)
        for name in ("b", "a", "b", "b:1"):
            await store.jobs.send_event(TENANT, first.job_id, name, f'"{name}"', NOW)
        await store.jobs.send_event(TENANT, second.job_id, "b", "1", NOW)
        found = await store.jobs.list_sent_events(TENANT, first.job_id)
        numbers = sorted((each.name, each.number) for each in found)
        assert numbers == [("a", 0), ("b", 0), ("b", 1), ("b:1", 0)]
        assert [
            each.number for each in await store.jobs.list_sent_events(TENANT, second.job_id)
        ] == [0]

    async def test_events_sent_at_the_same_time_have_numbers_of_their_own(
        self, store: Store, worker: str
    ) -> None:
        """Concurrent events get distinct numbers, and all are stored."""
        lease = await run_job(store)
        await asyncio.gather(
            *(store.jobs.send_event(TENANT, lease.job_id, "tick", str(n), NOW) for n in range(20))
        )
        found = await store.jobs.list_sent_events(TENANT, lease.job_id)
        assert [each.number for each in found] == list(range(20))
        assert {each.data for each in found} == {str(n) for n in range(20)}

    async def test_others_do_not_wake_it(self, store: Store, worker: str) -> None:
        """An event with another name, number or job does not wake a waiting job."""
        lease, other = await run_job(store), await run_job(store)
        await settle(store, lease, Waiting(None, ((event_sent("go", 1),),)))
        await settle(store, other, Waiting(None, ((event_sent("go", 0),),)))
        for name in ("gone", "go"):
            job = await store.jobs.send_event(TENANT, lease.job_id, name, "1", NOW)
            assert job.state is State.WAITING
        assert (await job_of(store, other)).state is State.WAITING
        assert (
            await store.jobs.send_event(TENANT, lease.job_id, "go", "1", NOW)
        ).state is State.QUEUED

    async def test_all_of_a_group_must_come(self, store: Store, worker: str) -> None:
        """A group can mix events and children; the job wakes when all of them are complete."""
        lease = await run_job(store)
        [child] = await spawn(store, lease)
        group = (event_sent("go", 0), *_all_of(child))
        await settle(store, lease, Waiting(None, (group,)))
        assert (
            await store.jobs.send_event(TENANT, lease.job_id, "go", "1", NOW)
        ).state is State.WAITING
        await store.jobs.cancel(TENANT, child.id, NOW)
        assert (await job_of(store, lease)).state is State.QUEUED

    async def test_a_job_that_has_ended_takes_none(self, store: Store, worker: str) -> None:
        """Sending an event to a finished job raises `Conflict` and stores nothing."""
        lease = await run_job(store)
        await settle(store, lease, Succeeded("1"))
        before = await job_of(store, lease)
        with pytest.raises(Conflict):
            await store.jobs.send_event(TENANT, lease.job_id, "go", "1", NOW)
        assert await store.jobs.list_sent_events(TENANT, lease.job_id) == []
        assert await job_of(store, lease) == before

    async def test_a_job_that_is_not_there_is_sent_nothing(self, store: Store) -> None:
        """Sending to an unknown job, another tenant's job or a deleted job raises an error."""
        job = new_job(tenant="acme", terms=Terms(keep_failed_ms=1))
        await store.jobs.submit(job, NOW)
        for tenant, job_id in ((TENANT, new_id()), ("umbrella", job.id)):
            with pytest.raises(NotFound):
                await store.jobs.send_event(tenant, job_id, "go", "1", NOW)
        await store.jobs.cancel("acme", job.id, NOW)
        await store.maintenance.sweep(NOW + 10)
        with pytest.raises(Gone):
            await store.jobs.send_event("acme", job.id, "go", "1", NOW + 10)

    async def test_events_are_sent_by_public_id(self, store: Store) -> None:
        """An event can be sent by public id."""
        job = new_job(public_id="r_42")
        await store.jobs.submit(job, NOW)
        await store.jobs.send_event(TENANT, "r_42", "go", "1", NOW)
        assert len(await store.jobs.list_sent_events(TENANT, job.id)) == 1


def _all_of(*jobs: JobInsert) -> tuple[str, ...]:
    return tuple(child_finished(job.id) for job in jobs)
