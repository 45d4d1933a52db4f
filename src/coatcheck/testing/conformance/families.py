"""Conformance tests for parents and children: cancellation and retention."""

from __future__ import annotations

from coatcheck.model.job import Lease, Terms
from coatcheck.model.outcome import Cancelled, GaveUp, Succeeded, Waiting
from coatcheck.model.state import Reason, State
from coatcheck.model.step import child_finished
from coatcheck.store.base import Store, SweepResult
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    TENANT,
    Conformance,
    cancel_requests,
    claim,
    job_of,
    reclaim,
    run_job,
    settle,
    spawn,
)


class FamilyConformance(Conformance):
    """Tests for the cascade of `cancel` and for the retention of children in `sweep`."""

    async def test_a_cancelled_job_takes_its_children_along(
        self, store: Store, worker: str
    ) -> None:
        """Queued children are cancelled immediately; running ones get a cancel request."""
        lease, children = await self._family(store, 3)
        running = (await claim(store, "child", limit=1))[0].lease
        await store.jobs.cancel(TENANT, lease.job_id, NOW + 1)
        found = [await store.jobs.get(TENANT, child) for child in children]
        assert [job.state for job in found] == [State.RUNNING, *[State.CANCELLED] * 2]
        assert found[1].reason is Reason.CANCELLED
        assert await cancel_requests(store, worker) == [running]

    async def test_children_of_others_and_those_that_have_ended_are_left_alone(
        self, store: Store, worker: str
    ) -> None:
        """Cancelling a parent affects neither finished children nor children of other jobs."""
        lease, [child] = await self._family(store, 1)
        done = await reclaim(store, child, "child")
        await settle(store, done, Succeeded("1"))
        other, [stranger] = await self._family(store, 1, wait=False)
        await store.jobs.cancel(TENANT, lease.job_id, NOW)
        assert (await store.jobs.get(TENANT, child)).state is State.SUCCEEDED
        assert (await store.jobs.get(TENANT, stranger)).state is State.QUEUED
        assert (await job_of(store, other)).cancel_requested is False

    async def test_a_running_parent_takes_them_along_when_it_has_stopped(
        self, store: Store, worker: str
    ) -> None:
        """Children of a running parent continue until it stops, since it may still succeed."""
        lease, [child] = await self._family(store, 1, wait=False)
        await store.jobs.cancel(TENANT, lease.job_id, NOW)
        assert (await store.jobs.get(TENANT, child)).state is State.QUEUED
        await settle(store, lease, Cancelled())
        assert (await store.jobs.get(TENANT, child)).state is State.CANCELLED

    async def test_a_parent_that_was_lost_while_it_should_stop(
        self, store: Store, worker: str
    ) -> None:
        """If the parent's worker is lost, the next sweep cancels the children."""
        lease, [child] = await self._family(store, 1, wait=False)
        await store.jobs.cancel(TENANT, lease.job_id, NOW)
        await store.workers.remove_worker(worker, None, NOW)
        assert (await job_of(store, lease)).state is State.CANCELLED
        await self._sweep(store)
        assert (await store.jobs.get(TENANT, child)).state is State.CANCELLED

    async def test_only_the_cancelled_take_their_children_along(
        self, store: Store, worker: str
    ) -> None:
        """Children continue after their parent succeeds or fails."""
        for outcome in (Succeeded("1"), GaveUp(BOOM)):
            lease, [child] = await self._family(store, 1, wait=False)
            await settle(store, lease, outcome)
            await self._sweep(store)
            assert (await store.jobs.get(TENANT, child)).state is State.QUEUED

    async def test_more_children_than_are_cancelled_at_once(
        self, store: Store, worker: str
    ) -> None:
        """A sweep cancels the children that did not fit into the first transaction, each once."""
        lease, children = await self._family(store, 1_000)
        await store.jobs.cancel(TENANT, lease.job_id, NOW + 1)
        await self._sweep(store)
        found = await store.jobs.get_many([(TENANT, child) for child in children])
        assert {job.state for job in found} == {State.CANCELLED}
        assert {job.last_event for job in found} == {2}, "each is cancelled once"
        assert (await store.maintenance.sweep(NOW + 1)).more is False

    async def test_grandchildren(self, store: Store, worker: str) -> None:
        """Cancelling a job cancels its descendants at every depth."""
        lease, [child] = await self._family(store, 1)
        middle = await reclaim(store, child, "child")
        [grandchild] = await spawn(store, middle)
        held = await reclaim(store, grandchild.id, "child")
        [youngest] = await spawn(store, held)
        for waiting, on in ((held, youngest.id), (middle, grandchild.id)):
            await settle(store, waiting, Waiting(None, ((child_finished(on),),)))
        await store.jobs.cancel(TENANT, lease.job_id, NOW + 1)
        await self._sweep(store)
        for job_id in (child, grandchild.id, youngest.id):
            assert (await store.jobs.get(TENANT, job_id)).state is State.CANCELLED
        assert await claim(store, "child", now=NOW + 9) == []

    async def test_a_resumed_parent_is_cancelled_no_more(self, store: Store, worker: str) -> None:
        """Children spawned after a resume are not cancelled by an unfinished earlier cascade."""
        lease, _ = await self._family(store, 600)
        await store.jobs.cancel(TENANT, lease.job_id, NOW)
        await store.jobs.resume(TENANT, lease.job_id, NOW + 1)
        again = await reclaim(store, lease.job_id, now=NOW + 1)
        [child] = await spawn(store, again)
        await self._sweep(store)
        assert (await store.jobs.get(TENANT, child.id)).state is State.QUEUED

    async def test_a_child_is_kept_as_long_as_its_parent_may_ask_for_it(
        self, store: Store, worker: str
    ) -> None:
        """A finished child is kept past its own retention until its parent has finished."""
        terms = Terms(keep_succeeded_ms=10)
        lease = await run_job(store)
        [child] = await spawn(store, lease, terms=terms)
        held = await reclaim(store, child.id, "child")
        await settle(store, held, Succeeded("42"))
        for _ in range(3):  # running, waiting, queued
            assert await store.maintenance.sweep(NOW + 100) == SweepResult()
            assert (await store.jobs.get(TENANT, child.id)).result == "42"
            if (await job_of(store, lease)).state is State.RUNNING:
                await settle(store, lease, Waiting(NOW + 500, (("event:0:go",),)))
            else:
                await store.jobs.send_event(TENANT, lease.job_id, "go", "1", NOW)
        again = await reclaim(store, lease.job_id, now=NOW + 100)
        await settle(store, again, Succeeded("1"), NOW + 100)
        assert (await store.maintenance.sweep(NOW + 101)).deleted == 1
        assert await store.jobs.get_many([(TENANT, child.id)]) == []

    async def test_children_of_a_parent_that_is_gone_are_deleted(
        self, store: Store, worker: str
    ) -> None:
        """A sweep deletes an expired child whose parent was already deleted."""
        lease = await run_job(store)
        [child] = await spawn(store, lease, terms=Terms(keep_succeeded_ms=10))
        held = await reclaim(store, child.id, "child")
        await settle(store, held, Succeeded("42"))
        await settle(store, lease, Succeeded("1"))
        await store.jobs.delete(TENANT, lease.job_id, NOW)
        assert (await store.maintenance.sweep(NOW + 100)).deleted == 1

    async def _family(
        self, store: Store, count: int, *, wait: bool = True
    ) -> tuple[Lease, list[str]]:
        """Run a job that spawns `count` children and, if `wait`, then waits forever."""
        lease = await run_job(store)
        children = await spawn(store, lease, count)
        if wait:
            await settle(store, lease, Waiting())
        return lease, [child.id for child in children]

    async def _sweep(self, store: Store) -> None:
        """Sweep until nothing is left to do, since one cascade may start another."""
        for _ in range(4):
            while (await store.maintenance.sweep(NOW + 1)).more:
                continue
