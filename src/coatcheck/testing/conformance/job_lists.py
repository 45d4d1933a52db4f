"""Conformance tests for reading many jobs and the event log of one."""

from __future__ import annotations

import itertools
from typing import Any

from coatcheck.model.event import EventType, NewJobEvent
from coatcheck.model.job import Progress
from coatcheck.model.outcome import GaveUp, Succeeded
from coatcheck.model.state import State
from coatcheck.store.base import JobFilter, Report, Store
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    TENANT,
    Conformance,
    claim,
    everything,
    new_id,
    new_job,
    run_job,
    settle,
)


class ListConformance(Conformance):
    """Tests for `list_jobs`, `get_many` and `list_events`."""

    async def test_jobs_are_listed_newest_first(self, store: Store) -> None:
        """Jobs are listed by creation time, newest first."""
        jobs = [new_job(created_at=NOW + n) for n in range(5)]
        for job in jobs:
            await store.jobs.submit(job, NOW)
        found = await store.jobs.list_jobs(JobFilter(TENANT))
        assert [job.id for job in found] == [job.id for job in reversed(jobs)]

    async def test_each_filter_and_each_combination_of_them(
        self, store: Store, worker: str
    ) -> None:
        """A list contains exactly the jobs that match every given filter."""
        await self._submit_a_mixture(store)
        jobs = await everything(store)
        assert len(jobs) == 24
        choices = itertools.product(
            (None, *State),
            (None, "mail", "chart", "unknown"),
            (None, "default", "slow", "unknown"),
            (None, NOW - 1, NOW + 500, NOW + 5_000),
            (None, jobs[5].id),
        )
        for state, kind, queue, created_after, before in choices:
            which = JobFilter(TENANT, state, kind, queue, created_after, before, limit=100)
            expected = [
                job.id
                for job in jobs
                if state in (None, job.state)
                and kind in (None, job.kind)
                and queue in (None, job.queue)
                and (created_after is None or job.created_at >= created_after)
                and (before is None or job.id < before)
            ]
            found = await store.jobs.list_jobs(which)
            assert [job.id for job in found] == expected, which

    async def test_the_jobs_that_a_job_has_spawned(self, store: Store) -> None:
        """The parent filter selects a job's children and combines with the other filters."""
        parent, other = new_job(), new_job()
        children = []
        for n, kind in enumerate(("mail", "chart", "mail")):
            job = new_job(kind, created_at=NOW + n, labels=f'{{"n":"{n}"}}')
            children.append(job._replace(terms=job.terms._replace(parent=parent.id)))
        stray = new_job("mail")
        stray = stray._replace(terms=stray.terms._replace(parent=other.id))
        for job in (parent, other, *children, stray):
            await store.jobs.submit(job, NOW)

        async def found(**which: Any) -> list[str]:
            jobs = await store.jobs.list_jobs(JobFilter(TENANT, parent=parent.id, **which))
            return [job.id for job in jobs]

        ids = [job.id for job in reversed(children)]
        assert await found() == ids
        assert await found(kind="mail") == [ids[0], ids[2]]
        assert await found(kind="chart", state=State.QUEUED, queue="default") == [ids[1]]
        assert await found(state=State.FAILED) == []
        assert await found(before=ids[0], limit=1) == [ids[1]]
        assert await found(created_after=NOW + 1) == ids[:2]
        assert await found(labels=(("n", "0"),)) == [ids[2]]

    async def _submit_a_mixture(self, store: Store) -> None:
        """Submit 24 jobs of two kinds in two queues, a second apart, in four states."""
        for n in range(24):
            job = new_job(
                "mail" if n % 2 else "chart",
                created_at=NOW + 1_000 * (n // 8),
                queue="slow" if n % 3 else "default",
            )
            await store.jobs.submit(job, NOW + 10_000)
            await store.jobs.submit(job._replace(tenant="acme"), NOW + 10_000)
        claims = await claim(store, "mail", "chart", limit=30, now=NOW + 10_000)
        mine = [one.lease for one in claims if one.lease.tenant == TENANT]
        for lease in mine[:4]:
            await settle(store, lease, Succeeded("1"), NOW + 10_000)
        for lease in mine[4:7]:
            await settle(store, lease, GaveUp(BOOM), NOW + 10_000)
        for newest in (await everything(store))[:3]:
            await store.jobs.cancel(TENANT, newest.id, NOW + 10_000)

    async def test_paging_sees_every_job_once(self, store: Store) -> None:
        """Paging with `before` returns every job once, even while new jobs are submitted."""
        jobs = [new_job() for _ in range(23)]
        await store.jobs.submit_batch(jobs, NOW)
        seen: list[str] = []
        for _ in range(6):
            before = seen[-1] if seen else None
            page = await store.jobs.list_jobs(JobFilter(TENANT, before=before, limit=5))
            assert len(page) <= 5
            seen.extend(job.id for job in page)
            await store.jobs.submit(new_job(), NOW)
        assert seen == [job.id for job in reversed(jobs)]

    async def test_a_listing_is_limited(self, store: Store) -> None:
        """A list has at most `limit` jobs; the default is 50."""
        await store.jobs.submit_batch([new_job() for _ in range(60)], NOW)
        assert len(await store.jobs.list_jobs(JobFilter(TENANT))) == 50
        assert len(await store.jobs.list_jobs(JobFilter(TENANT, limit=1))) == 1

    async def test_a_listing_holds_one_tenant_only(self, store: Store) -> None:
        """A list contains no jobs of other tenants."""
        mine, theirs = new_job(tenant="acme"), new_job(tenant="umbrella")
        await store.jobs.submit_batch([mine, theirs], NOW)
        assert [job.id for job in await everything(store, "acme")] == [mine.id]
        assert [job.id for job in await everything(store, "umbrella")] == [theirs.id]
        assert await everything(store, "acm") == []

    async def test_a_listing_leaves_results_out(self, store: Store, worker: str) -> None:
        """A list omits results; `get` returns them."""
        lease = await run_job(store)
        await settle(store, lease, Succeeded('"large"'), NOW)
        [listed] = await everything(store)
        assert listed.result is None
        assert listed.state is State.SUCCEEDED

    async def test_many_jobs_are_read_at_once(self, store: Store, worker: str) -> None:
        """`get_many` returns existing jobs of any tenant with results, and omits unknown ones."""
        done, queued, theirs = new_job(), new_job("chart"), new_job("chart", tenant="acme")
        lease = await run_job(store, done)
        await settle(store, lease, Succeeded('"yes"'), NOW)
        await store.jobs.submit_batch([queued, theirs], NOW)
        wanted = [(TENANT, done.id), ("acme", theirs.id), (TENANT, queued.id)]
        missing = [(TENANT, new_id()), ("acme", done.id)]
        found = {job.id: job for job in await store.jobs.get_many([*missing, *wanted])}
        assert set(found) == {done.id, theirs.id, queued.id}
        for tenant, job_id in wanted:
            assert found[job_id] == await store.jobs.get(tenant, job_id)

    async def test_none_of_many_jobs(self, store: Store) -> None:
        """`get_many` without ids returns an empty list."""
        assert await store.jobs.get_many([]) == []

    async def test_hundreds_of_jobs_are_read_at_once(self, store: Store) -> None:
        """`get_many` accepts hundreds of ids; one read serves every watcher of a process."""
        jobs = [new_job() for _ in range(700)]
        await store.jobs.submit_batch(jobs, NOW)
        found = await store.jobs.get_many([(TENANT, job.id) for job in jobs])
        assert {job.id for job in found} == {job.id for job in jobs}

    async def test_a_log_is_read_in_order_and_in_parts(self, store: Store, worker: str) -> None:
        """Events are numbered 1, 2, 3 per job; `after` and `limit` select a range."""
        first, second = await run_job(store), await run_job(store)
        for n in range(5):
            entry = NewJobEvent(EventType.LOG, f'{{"n":{n}}}')
            await store.workers.report(first, Report(events=(entry,)), NOW + n)
            await store.workers.report(second, Report(progress=Progress(n, 5)), NOW + n)
        await settle(store, first, Succeeded("1"), NOW + 9)

        for lease, length in ((first, 8), (second, 7)):
            log = await store.jobs.list_events(lease.tenant, lease.job_id, 0, 100)
            assert [event.seq for event in log] == list(range(1, length + 1))
            assert (await store.jobs.get(lease.tenant, lease.job_id)).last_event == length
            assert await store.jobs.list_events(lease.tenant, lease.job_id, 3, 100) == log[3:]
            assert await store.jobs.list_events(lease.tenant, lease.job_id, 3, 2) == log[3:5]
            assert await store.jobs.list_events(lease.tenant, lease.job_id, length, 100) == []

    async def test_jobs_are_listed_by_label(self, store: Store) -> None:
        """A job matches if it has all of the given labels; other filters apply as well."""
        labels = ['{"team":"blue"}', '{"team":"blue","size":"l"}', '{"team":"red"}', "{}"]
        jobs = [new_job(labels=text) for text in labels]
        await store.jobs.submit_batch(jobs, NOW)
        await store.jobs.submit(new_job(labels=labels[0], tenant="acme"), NOW)
        await store.jobs.cancel(TENANT, jobs[0].id, NOW)

        async def found(*asked: tuple[str, str], **filters: Any) -> list[int]:
            which = JobFilter(TENANT, labels=asked, **filters)
            ids = [job.id for job in await store.jobs.list_jobs(which)]
            return [[job.id for job in jobs].index(job_id) for job_id in ids]

        assert await found(("team", "blue")) == [1, 0]
        assert await found(("team", "blue"), ("size", "l")) == [1]
        assert await found(("size", "l"), ("team", "red")) == []
        assert await found(("team", "blue"), state=State.CANCELLED) == [0]
        assert await found(("team", "blue"), before=jobs[1].id) == [0]
        assert await found(("team", "blue"), kind="mail", queue="default", limit=1) == [1]
        assert await found(("team", "bl")) == []
