"""Conformance tests for resuming finished jobs and for forking jobs."""

from __future__ import annotations

import asyncio

import pytest

from coatcheck.errors import Gone, NotFound
from coatcheck.model.job import Terms
from coatcheck.model.outcome import Cancelled, Errored, GaveUp, Outcome, Succeeded, Waiting
from coatcheck.model.state import Reason, State
from coatcheck.model.step import Op, StepId, StepState
from coatcheck.store.base import Report, Store
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    TENANT,
    Conformance,
    claim,
    job_of,
    new_id,
    new_job,
    new_step,
    reclaim,
    run_job,
    settle,
    states_of,
)


class ResumeConformance(Conformance):
    """Tests for `resume`."""

    async def test_the_answer_is_how_it_was_left_however_soon_it_goes_on(
        self, store: Store, worker: str
    ) -> None:
        """`resume` returns the job as queued, even if it is claimed and finished meanwhile."""
        leases = [await run_job(store) for _ in range(20)]
        for lease in leases:
            await settle(store, lease, GaveUp(BOOM))
        resuming = asyncio.gather(*(store.jobs.resume(TENANT, one.job_id, NOW) for one in leases))
        ended = 0
        while ended < len(leases):
            for again in await claim(store):
                await settle(store, again.lease, Succeeded("1"))
                ended += 1
        assert {(job.state, job.reason) for job in await resuming} == {
            (State.QUEUED, Reason.RESUMED)
        }

    @pytest.mark.parametrize("outcome", [GaveUp(BOOM), Cancelled()])
    async def test_a_job_goes_on_with_its_steps_and_all_its_attempts(
        self, store: Store, worker: str, outcome: Outcome
    ) -> None:
        """A resumed job keeps its steps and gets all of its attempts again."""
        lease = await run_job(store, new_job(terms=Terms(max_attempts=2)))
        await store.workers.report(lease, Report(steps=(new_step(),)), NOW)
        await settle(store, lease, Errored(BOOM, 0))
        await settle(store, await reclaim(store, lease.job_id), outcome)
        job = await store.jobs.resume(TENANT, lease.job_id, NOW + 5)
        assert (job.state, job.reason, job.run_at) == (State.QUEUED, Reason.RESUMED, NOW + 5)
        assert (job.attempt, job.error, job.finished_at, job.expires_at) == (0, None, None, None)
        assert job.cancel_requested is False
        assert await store.jobs.list_steps(TENANT, lease.job_id) == [new_step()]
        for attempt in (1, 2):
            [again] = await claim(store, now=NOW + 5)
            assert (again.attempt, again.lease.fence) == (attempt, lease.fence + 1 + attempt)
            await settle(store, again.lease, Errored(BOOM, 0), NOW + 5)
        assert (await job_of(store, lease)).state is State.FAILED

    async def test_it_may_succeed_after_all(self, store: Store, worker: str) -> None:
        """A resumed job can succeed, and its retention counts from its new end."""
        lease = await run_job(store, new_job(terms=Terms(keep_succeeded_ms=10, keep_failed_ms=10)))
        await settle(store, lease, GaveUp(BOOM))
        await store.jobs.resume(TENANT, lease.job_id, NOW + 5)
        await store.maintenance.sweep(NOW + 100)
        await settle(
            store, await reclaim(store, lease.job_id, now=NOW + 5), Succeeded("2"), NOW + 9
        )
        job = await job_of(store, lease)
        assert (job.state, job.result, job.error, job.expires_at) == (
            *(State.SUCCEEDED, "2", None),
            NOW + 19,
        )
        states = await states_of(store, lease.job_id)
        assert states == ["queued", "running", "failed", "queued", "running", "succeeded"]

    async def test_a_request_to_stop_is_over(self, store: Store, worker: str) -> None:
        """Resuming a cancelled job clears its cancel request."""
        lease = await run_job(store)
        await store.jobs.cancel(TENANT, lease.job_id, NOW)
        await settle(store, lease, Cancelled())
        await store.jobs.resume(TENANT, lease.job_id, NOW)
        again = await reclaim(store, lease.job_id)
        assert [held.cancel_requested for held in await store.workers.list_held_jobs(worker)] == [
            False
        ]
        await settle(store, again, Errored(BOOM, 0))
        assert (await job_of(store, lease)).state is State.QUEUED

    async def test_a_deadline_that_has_passed_is_dropped(self, store: Store, worker: str) -> None:
        """Resuming drops a deadline that has passed and keeps one in the future."""
        terms = Terms(deadline_at=NOW + 50)
        for now, deadline in ((NOW + 49, NOW + 50), (NOW + 50, None)):
            lease = await run_job(store, new_job(terms=terms))
            await settle(store, lease, GaveUp(BOOM))
            job = await store.jobs.resume(TENANT, lease.job_id, now)
            assert job.terms.deadline_at == deadline
            assert (await store.maintenance.sweep(now)).expired == 0
            [again] = await claim(store, now=now)
            assert again.terms.deadline_at == deadline

    async def test_an_expired_job_can_be_resumed(self, store: Store, worker: str) -> None:
        """A job that expired before its first attempt can be resumed."""
        job = new_job(terms=Terms(deadline_at=NOW + 5))
        await store.jobs.submit(job, NOW)
        await store.maintenance.sweep(NOW + 5)
        assert (await store.jobs.resume(TENANT, job.id, NOW + 6)).state is State.QUEUED
        await reclaim(store, job.id, now=NOW + 6)

    async def test_any_other_is_left_as_it_is(self, store: Store, worker: str) -> None:
        """Resuming a queued, running, waiting or succeeded job changes nothing."""
        lease = await run_job(store)
        before = await job_of(store, lease)
        assert await store.jobs.resume(TENANT, lease.job_id, NOW + 1) == before
        await settle(store, lease, Waiting(NOW + 3))
        before = await job_of(store, lease)
        assert await store.jobs.resume(TENANT, lease.job_id, NOW + 1) == before
        again = await reclaim(store, lease.job_id, now=NOW + 3)
        await settle(store, again, Succeeded("1"))
        before = await job_of(store, lease)
        assert await store.jobs.resume(TENANT, lease.job_id, NOW + 9) == before
        await store.jobs.submit(new := new_job(), NOW)
        assert (await store.jobs.resume(TENANT, new.id, NOW)).last_event == 1

    async def test_the_lease_of_before_writes_nothing(self, store: Store, worker: str) -> None:
        """A lease from before the resume is stale, while the job is queued and once reclaimed."""
        lease = await run_job(store)
        await settle(store, lease, GaveUp(BOOM))
        await store.jobs.resume(TENANT, lease.job_id, NOW)
        assert not await store.workers.report(lease, Report(steps=(new_step(),)), NOW)
        again = await reclaim(store, lease.job_id)
        assert not await settle(store, lease, Succeeded("1"))
        assert (await job_of(store, again)).state is State.RUNNING

    async def test_a_job_that_is_not_there_is_not_resumed(self, store: Store) -> None:
        """Resuming an unknown job, another tenant's job or a deleted job raises an error."""
        job = new_job(tenant="acme", terms=Terms(keep_failed_ms=1))
        await store.jobs.submit(job, NOW)
        await store.jobs.cancel("acme", job.id, NOW)
        for tenant, job_id in ((TENANT, new_id()), ("umbrella", job.id)):
            with pytest.raises(NotFound):
                await store.jobs.resume(tenant, job_id, NOW)
        await store.maintenance.sweep(NOW + 10)
        with pytest.raises(Gone):
            await store.jobs.resume("acme", job.id, NOW + 10)


class ForkConformance(Conformance):
    """Tests for `fork` and `get_input`."""

    async def test_a_fork_begins_with_the_steps_before_a_number(
        self, store: Store, worker: str
    ) -> None:
        """A fork copies the steps before a number, except waiting ones and uncaught failures."""
        lease = await run_job(store)
        steps = (
            new_step(0, "a"),
            new_step(1, "b", state=StepState.FAILED, result=None, error=BOOM, survived=True),
            new_step(2, "c", state=StepState.FAILED, result=None, error=BOOM),
            new_step(3, "d", state=StepState.WAITING, finished_at=None, result=None, wake_at=NOW),
            new_step(4, "e"),
            new_step(5, "f"),
        )
        await store.workers.report(lease, Report(steps=steps), NOW)
        fork = new_job(forked_from=lease.job_id)
        await store.jobs.fork(lease.job_id, 5, fork, NOW + 1)
        copied = [steps[0], steps[1], steps[4]]
        assert await store.jobs.list_steps(TENANT, fork.id) == copied
        assert await store.jobs.list_steps(TENANT, lease.job_id) == list(steps)
        assert (await store.jobs.get(TENANT, fork.id)).forked_from == lease.job_id

    async def test_its_first_claim_looks_like_a_second(self, store: Store, worker: str) -> None:
        """A fork's first claim has fence 2, because handlers load steps only from fence 2 on."""
        lease = await run_job(store)
        fork = new_job(
            input='"other"',
            forked_from=lease.job_id,
            surface="proxy",
            labels='{"relay.owner": "x"}',
        )
        await store.jobs.fork(lease.job_id, 9, fork, NOW)
        job = await store.jobs.get(TENANT, fork.id)
        assert (job.surface, job.labels) == ("proxy", {"relay.owner": "x"})
        assert (job.state, job.fence, job.attempt, job.last_event) == (State.QUEUED, 1, 0, 1)
        [claimed] = await claim(store)
        assert (claimed.lease.fence, claimed.attempt, claimed.input) == (2, 1, '"other"')

    async def test_the_same_id_again_is_left_alone(self, store: Store, worker: str) -> None:
        """Repeating a fork with the same id changes nothing."""
        lease = await run_job(store)
        await store.workers.report(lease, Report(steps=(new_step(0), new_step(1))), NOW)
        fork = new_job(forked_from=lease.job_id)
        await store.jobs.fork(lease.job_id, 1, fork, NOW)
        before = await store.jobs.get(TENANT, fork.id)
        await store.jobs.fork(lease.job_id, 2, fork._replace(input='"other"'), NOW + 1)
        assert await store.jobs.get(TENANT, fork.id) == before
        assert await store.jobs.list_steps(TENANT, fork.id) == [new_step(0)]
        assert await store.jobs.get_input(TENANT, fork.id) == fork.input

    async def test_the_source_may_have_ended_or_be_gone(self, store: Store, worker: str) -> None:
        """A fork copies the steps of a finished job, and none of a deleted one."""
        lease = await run_job(store)
        await store.workers.report(lease, Report(steps=(new_step(0),)), NOW)
        await settle(store, lease, Succeeded("1"))
        fork, late = new_job(), new_job()
        await store.jobs.fork(lease.job_id, 1, fork, NOW)
        await store.jobs.delete(TENANT, lease.job_id, NOW)
        await store.jobs.fork(lease.job_id, 1, late, NOW)
        assert await store.jobs.list_steps(TENANT, fork.id) == [new_step(0)]
        assert await store.jobs.list_steps(TENANT, late.id) == []

    async def test_a_fork_takes_no_steps_of_another_tenant(self, store: Store, worker: str) -> None:
        """A fork copies no steps from another tenant's job."""
        lease = await run_job(store, new_job(tenant="acme"))
        await store.workers.report(lease, Report(steps=(new_step(0),)), NOW)
        fork = new_job(tenant="umbrella")
        await store.jobs.fork(lease.job_id, 1, fork, NOW)
        assert await store.jobs.list_steps("umbrella", fork.id) == []

    async def test_events_that_its_steps_have_taken_come_along(
        self, store: Store, worker: str
    ) -> None:
        """A fork copies the events that its steps consumed, so later event numbers continue."""
        lease = await run_job(store)
        for data in ("1", "2", "3"):
            await store.jobs.send_event(TENANT, lease.job_id, "go", data, NOW)
        await store.jobs.send_event(TENANT, lease.job_id, "stop", "4", NOW)
        taken = [
            new_step(seq, "go", id=StepId(Op.EVENT, "go", None, seq), result=str(seq + 1))
            for seq in range(2)
        ]
        await store.workers.report(lease, Report(steps=tuple(taken)), NOW)
        one, both = new_job(), new_job()
        await store.jobs.fork(lease.job_id, 1, one, NOW + 1)
        await store.jobs.fork(lease.job_id, 2, both, NOW + 1)
        for fork, count in ((one, 1), (both, 2)):
            await store.jobs.send_event(TENANT, fork.id, "go", '"new"', NOW + 2)
            found = await store.jobs.list_sent_events(TENANT, fork.id)
            assert [(each.name, each.number) for each in found] == [
                ("go", number) for number in range(count + 1)
            ]
            assert found[-1].data == '"new"'

    async def test_the_input_of_a_job_can_be_read(self, store: Store, worker: str) -> None:
        """An input is returned by job id or public id, exactly as submitted."""
        job = new_job(input='{"n": 1.50}', public_id="r_42")
        await store.jobs.submit(job, NOW)
        for job_id in (job.id, "r_42"):
            assert await store.jobs.get_input(TENANT, job_id) == '{"n": 1.50}'
        with pytest.raises(NotFound):
            await store.jobs.get_input("umbrella", job.id)
        await store.jobs.cancel(TENANT, job.id, NOW)
        await store.jobs.delete(TENANT, job.id, NOW)
        with pytest.raises(Gone):
            await store.jobs.get_input(TENANT, job.id)
