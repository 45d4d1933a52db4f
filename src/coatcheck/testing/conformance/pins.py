"""Conformance tests for versions: a job that has started keeps its version."""

from __future__ import annotations

from coatcheck.model.outcome import GaveUp, Released
from coatcheck.model.state import State
from coatcheck.store.base import Report, Store
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    TENANT,
    Conformance,
    claimed_ids,
    new_job,
    new_step,
    settle,
)
from coatcheck.testing.conformance.limits import ONE, take


class VersionConformance(Conformance):
    """Tests for `claim` with versions."""

    async def test_a_job_that_has_begun_stays_with_its_version(
        self, store: Store, worker: str
    ) -> None:
        """A started job is claimed only by workers of its version; new jobs by any version."""
        await store.jobs.submit_batch([new_job(), new_job()], NOW)
        [begun] = await take(store, {}, 1, versions={"mail": "1"})
        await settle(store, begun.lease, Released())
        newer = await take(store, {}, versions={"mail": "2"})
        assert [claim.lease.job_id for claim in newer] != [begun.lease.job_id]
        assert len(newer) == 1
        assert await claimed_ids(store) == [], "a worker that knows no versions leaves it, too"
        job = await store.jobs.get(TENANT, begun.lease.job_id)
        assert (job.state, job.version) == (State.QUEUED, "1")
        [again] = await take(store, {}, versions={"mail": "1"})
        assert again.lease.job_id == begun.lease.job_id
        assert (await store.jobs.get(TENANT, newer[0].lease.job_id)).version == "2"

    async def test_versions_of_a_kind_share_its_limit(self, store: Store, worker: str) -> None:
        """A limit counts the running jobs of all versions of its kind."""
        await store.jobs.submit_batch([new_job() for _ in range(3)], NOW)
        assert len(await take(store, ONE, versions={"mail": "1"})) == 1
        assert await take(store, ONE, versions={"mail": "2"}) == []

    async def test_a_job_that_is_resumed_keeps_its_version(self, store: Store, worker: str) -> None:
        """A resumed job keeps its version, because its steps were recorded by that code."""
        job = new_job()
        await store.jobs.submit(job, NOW)
        [begun] = await take(store, {}, versions={"mail": "1"})
        await settle(store, begun.lease, GaveUp(BOOM))
        assert (await store.jobs.resume(TENANT, job.id, NOW)).version == "1"
        assert await take(store, {}, versions={"mail": "2"}) == []
        [again] = await take(store, {}, versions={"mail": "1"})
        assert again.lease.job_id == job.id

    async def test_a_fork_begins_with_whatever_version_comes_first(
        self, store: Store, worker: str
    ) -> None:
        """A fork has no version until its first claim, so a job can move to newer code."""
        job, fork = new_job(), new_job()
        await store.jobs.submit(job, NOW)
        [begun] = await take(store, {}, versions={"mail": "1"})
        await store.workers.report(begun.lease, Report(steps=(new_step(0),)), NOW)
        await store.jobs.fork(job.id, 1, fork._replace(forked_from=job.id), NOW)
        assert (await store.jobs.get(TENANT, fork.id)).version is None
        [other] = await take(store, {}, versions={"mail": "2"})
        assert other.lease.job_id == fork.id
        assert (await store.jobs.get(TENANT, fork.id)).version == "2"
        assert await store.jobs.list_steps(TENANT, fork.id) == [new_step(0)]
