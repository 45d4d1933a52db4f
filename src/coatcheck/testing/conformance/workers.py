"""Conformance tests for workers: registration, heartbeats and removal."""

from __future__ import annotations

import pytest

from coatcheck.model.job import Job, Lease, Progress, Terms
from coatcheck.model.outcome import Errored, Released, Succeeded
from coatcheck.model.state import Reason, State
from coatcheck.store.base import Report, Store
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    OTHER_WORKER,
    TENANT,
    WORKER,
    Conformance,
    claim,
    job_of,
    new_job,
    reclaim,
    run_job,
    settle,
    states_of,
    worker_info,
)


class WorkerConformance(Conformance):
    """Tests for `register_worker`, `heartbeat`, `list_workers` and `remove_worker`."""

    async def test_a_registered_worker_is_listed(self, store: Store) -> None:
        """A registered worker is listed with its details and is not known to be dead."""
        await store.workers.register_worker(worker_info(WORKER))
        [seen] = await store.workers.list_workers()
        assert seen.info == worker_info(WORKER)
        assert not seen.known_dead

    async def test_each_beat_counts(self, store: Store, worker: str, other_worker: str) -> None:
        """Each worker's heartbeats are counted separately."""
        assert await store.workers.heartbeat(worker) is True
        assert await store.workers.heartbeat(worker) is True
        beats = {seen.info.id: seen.info.beats for seen in await store.workers.list_workers()}
        assert beats == {worker: 2, other_worker: 0}

    async def test_a_worker_that_is_not_registered_cannot_beat(
        self, store: Store, worker: str
    ) -> None:
        """The heartbeat of an unknown or removed worker returns False, so the worker stops."""
        assert await store.workers.heartbeat("nobody") is False
        await store.workers.remove_worker(worker, None, NOW)
        assert await store.workers.heartbeat(worker) is False
        assert await store.workers.list_workers() == []

    async def test_a_lost_worker_gives_its_jobs_back(
        self, store: Store, worker: str, other_worker: str
    ) -> None:
        """Jobs of a removed worker are queued again immediately, and the attempt counts."""
        leases = [await run_job(store) for _ in range(3)]
        kept = await run_job(store, worker=OTHER_WORKER)
        assert await store.workers.remove_worker(worker, 0, NOW + 5) == 3

        for lease in leases:
            job = await job_of(store, lease)
            assert (job.state, job.reason, job.worker) == (State.QUEUED, Reason.LOST, None)
            assert (job.attempt, job.finished_at) == (1, None)
            assert await states_of(store, lease.job_id) == ["queued", "running", "queued"]
        assert (await job_of(store, kept)).state is State.RUNNING
        assert [seen.info.id for seen in await store.workers.list_workers()] == [other_worker]
        assert len(await claim(store, worker=other_worker, now=NOW + 5)) == 3

    async def test_a_lost_lease_is_stale(
        self, store: Store, worker: str, other_worker: str
    ) -> None:
        """The lease of a removed worker is stale, before and after the job is claimed again."""
        lease = await run_job(store)
        await store.workers.remove_worker(worker, None, NOW)
        before = await job_of(store, lease)
        assert await settle(store, lease, Succeeded('"late"'), NOW) is False
        assert await store.workers.report(lease, Report(Progress(1)), NOW) is False
        assert await job_of(store, lease) == before

        current = await reclaim(store, lease.job_id, worker=other_worker)
        assert current.fence > lease.fence
        assert await settle(store, lease, Succeeded('"late"'), NOW) is False
        assert await settle(store, current, Succeeded('"good"'), NOW) is True
        assert (await job_of(store, current)).result == '"good"'
        assert (await store.maintenance.read_counters())["stale_writes"] == 3

    @pytest.mark.parametrize("on_lost", ["requeue", "resume"])
    async def test_a_job_lost_too_often_fails(
        self, store: Store, worker: str, other_worker: str, on_lost: str
    ) -> None:
        """A job that loses the worker of its last attempt fails with the reason `lost`."""
        terms = Terms(max_attempts=2, on_lost=on_lost, keep_failed_ms=9)
        lease = await run_job(store, new_job(terms=terms))
        await store.workers.remove_worker(worker, None, NOW)
        again = await reclaim(store, lease.job_id, worker=other_worker)
        assert await store.workers.remove_worker(other_worker, None, NOW + 1) == 1
        self._failed_as_lost(await job_of(store, again), NOW + 1, attempts=2)

    async def test_a_job_may_ask_to_fail_when_its_worker_is_lost(
        self, store: Store, worker: str
    ) -> None:
        """With `on_lost="fail"`, a lost job fails even if it has attempts left."""
        terms = Terms(max_attempts=5, on_lost="fail", keep_failed_ms=9)
        lease = await run_job(store, new_job(terms=terms))
        await store.workers.remove_worker(worker, None, NOW + 1)
        self._failed_as_lost(await job_of(store, lease), NOW + 1, attempts=1)
        assert await settle(store, lease, Succeeded("1"), NOW + 2) is False

    def _failed_as_lost(self, job: Job, when: int, attempts: int) -> None:
        assert (job.state, job.reason, job.attempt) == (State.FAILED, Reason.LOST, attempts)
        assert job.error is not None
        assert job.error.code == "lost"
        assert (job.finished_at, job.expires_at) == (when, when + 9)

    async def test_a_lost_job_that_was_to_be_cancelled_is(self, store: Store, worker: str) -> None:
        """A lost job with a cancel request is cancelled."""
        lease = await run_job(store)
        await store.jobs.cancel(TENANT, lease.job_id, NOW)
        await store.workers.remove_worker(worker, None, NOW)
        job = await job_of(store, lease)
        assert (job.state, job.reason) == (State.CANCELLED, Reason.CANCELLED)

    async def test_a_lost_attempt_leaves_no_progress_behind(
        self, store: Store, worker: str
    ) -> None:
        """Progress and phase of a lost attempt are cleared."""
        lease = await run_job(store)
        await store.workers.report(lease, Report(Progress(5, 10), "working"), NOW)
        await store.workers.remove_worker(worker, None, NOW)
        job = await job_of(store, lease)
        assert (job.progress, job.phase) == (None, None)

    async def test_registering_twice_is_registering_once(self, store: Store, worker: str) -> None:
        """Registering a worker again keeps its heartbeat count."""
        await store.workers.heartbeat(worker)
        await store.workers.register_worker(worker_info(worker))
        [seen] = await store.workers.list_workers()
        assert (seen.info.id, seen.info.beats) == (worker, 1)

    async def test_a_worker_that_moved_is_not_removed(self, store: Store, worker: str) -> None:
        """A worker that has sent a heartbeat since it was observed is not removed."""
        lease = await run_job(store)
        await store.workers.heartbeat(worker)
        before = await job_of(store, lease)
        assert await store.workers.remove_worker(worker, 0, NOW) is None

        assert await job_of(store, lease) == before
        assert await store.workers.heartbeat(worker) is True
        assert await settle(store, lease, Succeeded("1"), NOW) is True

    async def test_a_worker_whose_count_stood_still_is_removed(
        self, store: Store, worker: str
    ) -> None:
        """A worker whose heartbeat count is unchanged is removed."""
        await run_job(store)
        await store.workers.heartbeat(worker)
        assert await store.workers.remove_worker(worker, 1, NOW) == 1
        assert await store.workers.list_workers() == []

    async def test_removing_somebody_unknown_does_nothing(self, store: Store, worker: str) -> None:
        """Removing an unknown or already removed worker returns None."""
        await run_job(store)
        assert await store.workers.remove_worker("nobody", None, NOW) is None
        assert await store.workers.remove_worker(worker, 0, NOW) == 1
        assert await store.workers.remove_worker(worker, 0, NOW) is None

    async def test_what_a_worker_has_settled_is_not_lost(self, store: Store, worker: str) -> None:
        """Removing a worker does not affect the jobs that it has settled."""
        done = await run_job(store)
        await settle(store, done, Succeeded("1"), NOW)
        delayed = await run_job(store)
        await settle(store, delayed, Errored(BOOM, retry_after_ms=1_000), NOW)
        given_back = await run_job(store)
        await settle(store, given_back, Released(retry_after_ms=1_000), NOW)
        leases: list[Lease] = [done, delayed, given_back]
        before = [await job_of(store, lease) for lease in leases]
        assert await store.workers.remove_worker(worker, None, NOW) == 0
        assert [await job_of(store, lease) for lease in leases] == before
