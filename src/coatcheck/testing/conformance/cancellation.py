"""Conformance tests for cancelling jobs."""

from __future__ import annotations

import pytest

from coatcheck.errors import Gone, NotFound
from coatcheck.model.job import Terms
from coatcheck.model.outcome import Cancelled, Errored, GaveUp, Succeeded
from coatcheck.model.state import Reason, State
from coatcheck.store.base import Store
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    OTHER_WORKER,
    TENANT,
    Conformance,
    cancel_requests,
    claim,
    job_of,
    new_id,
    new_job,
    run_job,
    settle,
    states_of,
)


class CancelConformance(Conformance):
    """Tests for `cancel`, and for `list_held_jobs`, which shows cancel requests to a worker."""

    async def test_a_queued_job_is_cancelled_at_once(self, store: Store, worker: str) -> None:
        """A queued job has no worker, so cancelling it finishes it immediately."""
        job = new_job(terms=Terms(keep_failed_ms=50))
        await store.jobs.submit(job, NOW)
        cancelled = await store.jobs.cancel(TENANT, job.id, NOW + 1)

        assert (cancelled.state, cancelled.reason) == (State.CANCELLED, Reason.CANCELLED)
        assert (cancelled.finished_at, cancelled.expires_at) == (NOW + 1, NOW + 51)
        assert await store.jobs.get(TENANT, job.id) == cancelled
        assert await states_of(store, job.id) == ["queued", "cancelled"]
        assert await claim(store) == []

    async def test_a_delayed_job_is_cancelled_at_once(self, store: Store, worker: str) -> None:
        """A cancelled delayed job leaves no due time behind."""
        job = new_job(run_at=NOW + 1_000)
        await store.jobs.submit(job, NOW)
        assert (await store.jobs.cancel(TENANT, job.id, NOW)).state is State.CANCELLED
        late = await store.workers.claim(worker, ["mail"], 10, NOW + 2_000)
        assert (late.claims, late.next_due) == ([], None)

    async def test_a_job_between_two_attempts_is_cancelled_at_once(
        self, store: Store, worker: str
    ) -> None:
        """A job that waits for a retry is cancelled immediately and keeps its last error."""
        lease = await run_job(store)
        await settle(store, lease, Errored(BOOM, retry_after_ms=1_000), NOW)
        cancelled = await store.jobs.cancel(TENANT, lease.job_id, NOW)
        assert (cancelled.state, cancelled.error) == (State.CANCELLED, BOOM)

    async def test_a_running_job_is_asked_to_stop(self, store: Store, worker: str) -> None:
        """A running job keeps running; its worker finds it among the cancel requests."""
        lease = await run_job(store)
        asked = await store.jobs.cancel(TENANT, lease.job_id, NOW + 1)
        assert (asked.state, asked.cancel_requested) == (State.RUNNING, True)
        assert (asked.worker, asked.fence) == (worker, lease.fence)
        assert await cancel_requests(store, worker) == [lease]

    async def test_asking_twice_is_asking_once(self, store: Store, worker: str) -> None:
        """A second cancel request changes nothing and adds no event."""
        lease = await run_job(store)
        asked = await store.jobs.cancel(TENANT, lease.job_id, NOW)
        assert await store.jobs.cancel(TENANT, lease.job_id, NOW + 1) == asked
        assert await cancel_requests(store, worker) == [lease]

    async def test_each_worker_sees_its_own_requests(
        self, store: Store, worker: str, other_worker: str
    ) -> None:
        """A worker's cancel requests contain only its own jobs."""
        mine = [await run_job(store) for _ in range(3)]
        theirs = await run_job(store, worker=OTHER_WORKER)
        for lease in (mine[0], mine[2], theirs):
            await store.jobs.cancel(TENANT, lease.job_id, NOW)
        assert set(await cancel_requests(store, worker)) == {mine[0], mine[2]}
        assert await cancel_requests(store, other_worker) == [theirs]
        assert await cancel_requests(store, "nobody") == []

    @pytest.mark.parametrize("outcome", [Cancelled(), Succeeded("1"), Errored(BOOM, 0)])
    async def test_a_request_is_over_when_the_job_is(
        self, store: Store, worker: str, outcome: Cancelled | Succeeded | Errored
    ) -> None:
        """A settled job is no longer among the cancel requests."""
        lease = await run_job(store)
        await store.jobs.cancel(TENANT, lease.job_id, NOW)
        await settle(store, lease, outcome, NOW)
        assert await cancel_requests(store, worker) == []

    @pytest.mark.parametrize("outcome", [Succeeded("42"), GaveUp(BOOM), Cancelled()])
    async def test_a_job_that_has_ended_is_left_as_it_is(
        self, store: Store, worker: str, outcome: Succeeded | GaveUp | Cancelled
    ) -> None:
        """Cancelling a finished job is no error and returns the job unchanged."""
        lease = await run_job(store)
        await settle(store, lease, outcome, NOW)
        before = await job_of(store, lease)
        assert await store.jobs.cancel(TENANT, lease.job_id, NOW + 1) == before
        assert await job_of(store, lease) == before

    async def test_it_is_cancelled_by_public_id(self, store: Store) -> None:
        """A job can be cancelled by its public id."""
        await store.jobs.submit(new_job(public_id="r_42"), NOW)
        assert (await store.jobs.cancel(TENANT, "r_42", NOW)).state is State.CANCELLED

    async def test_a_job_that_is_not_there_is_not_cancelled(self, store: Store) -> None:
        """Cancelling an unknown job, another tenant's job or a deleted job raises an error."""
        job = new_job(tenant="acme", terms=Terms(keep_failed_ms=1))
        await store.jobs.submit(job, NOW)
        for tenant, job_id in ((TENANT, new_id()), ("umbrella", job.id)):
            with pytest.raises(NotFound):
                await store.jobs.cancel(tenant, job_id, NOW)
        assert (await store.jobs.get("acme", job.id)).state is State.QUEUED

        await store.jobs.cancel("acme", job.id, NOW)
        await store.maintenance.sweep(NOW + 10)
        with pytest.raises(Gone):
            await store.jobs.cancel("acme", job.id, NOW + 10)
