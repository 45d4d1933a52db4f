"""Conformance tests for settlement: the job's next state, and which writes count."""

from __future__ import annotations

import pytest

from coatcheck.model.event import EventType
from coatcheck.model.job import Job, Lease, Terms
from coatcheck.model.outcome import Cancelled, Errored, GaveUp, Outcome, Released, Succeeded
from coatcheck.model.state import Reason, State
from coatcheck.store.base import Store
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    TENANT,
    Conformance,
    claim,
    job_of,
    new_id,
    new_job,
    reclaim,
    run_job,
    settle,
    states_of,
)

OUTCOMES = (
    Succeeded('"late"'),
    Errored(BOOM, retry_after_ms=0),
    GaveUp(BOOM),
    Released(),
    Cancelled(),
)


class SettleConformance(Conformance):
    """Tests for `settle`."""

    async def test_a_job_succeeds(self, store: Store, worker: str) -> None:
        """A succeeded attempt finishes the job with its result and starts its retention."""
        lease = await run_job(store, new_job(terms=Terms(keep_succeeded_ms=500)))
        assert await settle(store, lease, Succeeded('{"sent":true}'), NOW + 10) is True

        job = await job_of(store, lease)
        assert (job.state, job.result) == (State.SUCCEEDED, '{"sent":true}')
        assert (job.finished_at, job.expires_at) == (NOW + 10, NOW + 510)
        assert (job.worker, job.reason, job.error) == (None, None, None)
        assert await states_of(store, lease.job_id) == ["queued", "running", "succeeded"]
        assert await claim(store, now=NOW + 10_000_000) == []

    async def test_its_end_is_the_last_entry_of_its_log(self, store: Store, worker: str) -> None:
        """The final event is written together with the state."""
        lease = await run_job(store)
        await settle(store, lease, Succeeded("1"), NOW + 10)
        last = (await store.jobs.list_events(TENANT, lease.job_id, 0, 10))[-1]
        assert (last.seq, last.type, last.at) == (3, EventType.STATE, NOW + 10)
        assert (await job_of(store, lease)).last_event == 3

    async def test_a_failed_attempt_is_tried_again_later(self, store: Store, worker: str) -> None:
        """A failed attempt is retried after the delay that its outcome names."""
        lease = await run_job(store)
        assert await settle(store, lease, Errored(BOOM, retry_after_ms=1_000), NOW)

        job = await job_of(store, lease)
        assert (job.state, job.reason, job.error) == (State.QUEUED, Reason.RETRY, BOOM)
        assert (job.attempt, job.run_at, job.worker) == (1, NOW + 1_000, None)
        assert (job.finished_at, job.expires_at) == (None, None)
        waiting = await store.workers.claim(worker, ["mail"], 10, NOW + 999)
        assert (waiting.claims, waiting.next_due) == ([], NOW + 1_000)
        [again] = await claim(store, now=NOW + 1_000)
        assert (again.attempt, again.lease.fence) == (2, 2)

    async def test_the_last_attempt_fails_the_job(self, store: Store, worker: str) -> None:
        """A job without attempts left fails with the error of its last attempt."""
        lease = await run_job(store, new_job(terms=Terms(max_attempts=2, keep_failed_ms=70)))
        await settle(store, lease, Errored(BOOM, retry_after_ms=0), NOW)
        again = await reclaim(store, lease.job_id)
        await settle(store, again, Errored(BOOM, 0, Reason.TIMEOUT), NOW + 3)

        job = await job_of(store, again)
        assert (job.state, job.reason, job.error) == (State.FAILED, Reason.TIMEOUT, BOOM)
        assert (job.attempt, job.finished_at, job.expires_at) == (2, NOW + 3, NOW + 73)

    async def test_a_retry_that_could_not_begin_before_the_deadline_is_a_failure(
        self, store: Store, worker: str
    ) -> None:
        """A retry that would start at or after the deadline fails the job instead."""
        terms = Terms(deadline_at=NOW + 100)
        lease = await run_job(store, new_job(terms=terms))
        await settle(store, lease, Errored(BOOM, retry_after_ms=100), NOW)
        job = await job_of(store, lease)
        assert (job.state, job.reason, job.error) == (State.FAILED, Reason.ERROR, BOOM)

        lease = await run_job(store, new_job(terms=terms))
        await settle(store, lease, Errored(BOOM, retry_after_ms=99), NOW)
        assert (await job_of(store, lease)).state is State.QUEUED

    async def test_giving_up_fails_at_once(self, store: Store, worker: str) -> None:
        """Giving up fails the job, even if it has attempts left."""
        lease = await run_job(store)
        await settle(store, lease, GaveUp(BOOM), NOW)
        job = await job_of(store, lease)
        assert (job.state, job.reason, job.error) == (State.FAILED, Reason.ERROR, BOOM)
        assert job.attempt == 1

    async def test_a_release_does_not_consume_an_attempt(self, store: Store, worker: str) -> None:
        """A job can be released any number of times without using up an attempt."""
        lease = await run_job(store, new_job(terms=Terms(max_attempts=1)))
        for n in range(1, 5):
            assert await settle(store, lease, Released(), NOW)
            job = await job_of(store, lease)
            assert (job.state, job.reason, job.attempt) == (State.QUEUED, Reason.RELEASED, 0)
            lease = await reclaim(store, lease.job_id)
            assert (await job_of(store, lease)).attempt == 1
            assert lease.fence == n + 1

    async def test_a_release_may_say_when_and_why(self, store: Store, worker: str) -> None:
        """A release can set a delay and an error, for example for an unreachable target."""
        lease = await run_job(store)
        await settle(store, lease, Released(retry_after_ms=50, error=BOOM), NOW)
        job = await job_of(store, lease)
        assert (job.state, job.run_at, job.error) == (State.QUEUED, NOW + 50, BOOM)
        assert await claim(store, now=NOW + 49) == []

    async def test_a_handler_may_stop_as_cancelled(self, store: Store, worker: str) -> None:
        """A handler that stops on a cancel request settles its job as cancelled."""
        lease = await run_job(store, new_job(terms=Terms(keep_failed_ms=5)))
        await store.jobs.cancel(TENANT, lease.job_id, NOW)
        assert await settle(store, lease, Cancelled(), NOW)
        job = await job_of(store, lease)
        assert (job.state, job.reason) == (State.CANCELLED, Reason.CANCELLED)
        assert (job.finished_at, job.expires_at) == (NOW, NOW + 5)

    async def test_success_stays_success_when_a_cancel_raced_it(
        self, store: Store, worker: str
    ) -> None:
        """A job that succeeds despite a cancel request keeps its result."""
        lease = await run_job(store)
        await store.jobs.cancel(TENANT, lease.job_id, NOW)
        await settle(store, lease, Succeeded("42"), NOW)
        job = await job_of(store, lease)
        assert (job.state, job.result) == (State.SUCCEEDED, "42")

    @pytest.mark.parametrize(
        "outcome", [Errored(BOOM, 0), Errored(BOOM, 1_000), Released(), Released(1_000)]
    )
    async def test_what_would_run_again_ends_when_a_cancel_raced_it(
        self, store: Store, worker: str, outcome: Outcome
    ) -> None:
        """A failed or released attempt of a job with a cancel request ends as cancelled."""
        lease = await run_job(store)
        await store.jobs.cancel(TENANT, lease.job_id, NOW)
        await settle(store, lease, outcome, NOW)
        job = await job_of(store, lease)
        assert (job.state, job.reason) == (State.CANCELLED, Reason.CANCELLED)
        assert await claim(store, now=NOW + 10_000) == []

    @pytest.mark.parametrize("first", OUTCOMES)
    @pytest.mark.parametrize("second", OUTCOMES)
    async def test_settling_twice_changes_nothing(
        self, store: Store, worker: str, first: Outcome, second: Outcome
    ) -> None:
        """Settling a lease again returns True and changes nothing, whatever the second outcome."""
        lease = await run_job(store)
        assert await settle(store, lease, first, NOW)
        before = await self._all_of(store, lease)

        assert await settle(store, lease, second, NOW + 1) is True
        assert await self._all_of(store, lease) == before
        assert (await store.maintenance.read_counters()).get("stale_writes", 0) == 0

    @pytest.mark.parametrize("outcome", OUTCOMES)
    async def test_a_stale_lease_changes_nothing(
        self, store: Store, worker: str, outcome: Outcome
    ) -> None:
        """A settlement with a stale lease returns False, changes nothing and is counted."""
        stale = await run_job(store)
        await settle(store, stale, Released(), NOW)
        current = await reclaim(store, stale.job_id)
        before = await self._all_of(store, current)

        assert await settle(store, stale, outcome, NOW + 1) is False
        assert await self._all_of(store, current) == before
        assert (await store.maintenance.read_counters())["stale_writes"] == 1
        assert await settle(store, current, Succeeded('"mine"'), NOW + 2) is True
        assert (await job_of(store, current)).result == '"mine"'

    async def test_every_stale_write_is_counted(self, store: Store, worker: str) -> None:
        """The counter `stale_writes` counts every stale settlement."""
        stale = await run_job(store)
        await settle(store, stale, Released(), NOW)
        await reclaim(store, stale.job_id)
        for outcome in OUTCOMES:
            await settle(store, stale, outcome, NOW)
        assert (await store.maintenance.read_counters())["stale_writes"] == len(OUTCOMES)

    async def test_a_lease_from_nowhere_is_stale(self, store: Store, worker: str) -> None:
        """A lease with an unknown job, another tenant or a future fence is stale."""
        lease = await run_job(store)
        before = await self._all_of(store, lease)
        for wrong in (
            Lease(TENANT, new_id(), 1),
            lease._replace(tenant="acme"),
            lease._replace(fence=lease.fence + 1),
        ):
            assert await settle(store, wrong, Succeeded('"wrong"'), NOW) is False
        assert await self._all_of(store, lease) == before

    async def test_the_worker_need_not_be_known_to_settle(self, store: Store, worker: str) -> None:
        """A repeated settlement returns True even after its worker was removed."""
        lease = await run_job(store)
        await settle(store, lease, Succeeded("1"), NOW)
        await store.workers.remove_worker(worker, None, NOW)
        assert await settle(store, lease, Succeeded("1"), NOW) is True
        assert (await job_of(store, lease)).state is State.SUCCEEDED

    async def _all_of(self, store: Store, lease: Lease) -> tuple[Job, list[object]]:
        log = await store.jobs.list_events(lease.tenant, lease.job_id, 0, 100)
        return await job_of(store, lease), list(log)
