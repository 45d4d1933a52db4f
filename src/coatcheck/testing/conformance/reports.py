"""Conformance tests for the reports of running jobs."""

from __future__ import annotations

import asyncio
import json

from coatcheck.model.event import EventType, NewJobEvent
from coatcheck.model.job import Progress
from coatcheck.model.outcome import Errored, Released, Succeeded
from coatcheck.store.base import Report, Store
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    TENANT,
    Conformance,
    job_of,
    reclaim,
    run_job,
    settle,
)


class ReportConformance(Conformance):
    """Tests for `report`."""

    async def test_progress_is_shown_and_logged(self, store: Store, worker: str) -> None:
        """Reported progress is stored with the job and in its event log."""
        lease = await run_job(store)
        assert (
            await store.workers.report(lease, Report(Progress(3, 10, "sending")), NOW + 1) is True
        )
        job = await job_of(store, lease)
        assert job.progress == Progress(3, 10, "sending")
        [event] = await store.jobs.list_events(TENANT, lease.job_id, 2, 10)
        assert (event.seq, event.type, event.at) == (3, EventType.PROGRESS, NOW + 1)
        assert json.loads(event.data) == {"done": 3, "total": 10, "message": "sending"}

    async def test_it_may_be_called_on_any_loop(self, store: Store, worker: str) -> None:
        """A report may come from another event loop than the one the store was opened on."""
        lease = await run_job(store)
        stale = lease._replace(fence=lease.fence - 1)

        async def say() -> list[bool]:
            reports = [(lease, Report(Progress(done))) for done in range(20)]
            one_by_one = [await store.workers.report(*each, NOW) for each in reports]
            at_once = await asyncio.gather(
                store.workers.report(stale, Report(Progress(50)), NOW),
                *(store.workers.report(*each, NOW) for each in reports),
            )
            return [*one_by_one, *at_once]

        answers = await asyncio.to_thread(asyncio.run, say())
        assert answers == [*[True] * 20, False, *[True] * 20]
        log = await store.jobs.list_events(TENANT, lease.job_id, 2, 100)
        told = [json.loads(event.data)["done"] for event in log]
        assert told[:20] == list(range(20))
        assert sorted(told[20:]) == list(range(20))  # concurrent reports have no order

    async def test_what_is_none_stays_as_it_is(self, store: Store, worker: str) -> None:
        """A report leaves the progress or phase that it does not set unchanged."""
        lease = await run_job(store)
        await store.workers.report(lease, Report(phase="loading"), NOW)
        assert (await job_of(store, lease)).phase == "loading"
        await store.workers.report(lease, Report(Progress(0.5)), NOW)
        job = await job_of(store, lease)
        assert (job.phase, job.progress) == ("loading", Progress(0.5))
        await store.workers.report(lease, Report(phase="working"), NOW)
        job = await job_of(store, lease)
        assert (job.phase, job.progress) == ("working", Progress(0.5))

    async def test_a_phase_is_logged_like_progress(self, store: Store, worker: str) -> None:
        """A phase is written to the event log as progress, with or without other progress."""
        lease = await run_job(store)
        await store.workers.report(lease, Report(phase="loading"), NOW)
        await store.workers.report(lease, Report(Progress(1, 2, "half"), "working"), NOW)
        log = await store.jobs.list_events(TENANT, lease.job_id, 2, 10)
        assert [event.type for event in log] == [EventType.PROGRESS] * 2
        assert [json.loads(event.data) for event in log] == [
            {"phase": "loading"},
            {"done": 1, "total": 2, "message": "half", "phase": "working"},
        ]

    async def test_an_empty_report_changes_nothing(self, store: Store, worker: str) -> None:
        """An empty report succeeds and writes nothing."""
        lease = await run_job(store)
        before = await job_of(store, lease)
        assert await store.workers.report(lease, Report(), NOW) is True
        assert await job_of(store, lease) == before

    async def test_log_entries_keep_their_order(self, store: Store, worker: str) -> None:
        """Log entries are numbered in the order given, across reports."""
        lease = await run_job(store)
        entries = tuple(NewJobEvent(EventType.LOG, f'{{"message":"{n}"}}') for n in range(4))
        await store.workers.report(lease, Report(events=entries[:3]), NOW + 1)
        await store.workers.report(lease, Report(events=entries[3:]), NOW + 2)
        log = await store.jobs.list_events(TENANT, lease.job_id, 2, 10)
        assert [event.seq for event in log] == [3, 4, 5, 6]
        assert [event.data for event in log] == [entry.data for entry in entries]
        assert {event.type for event in log} == {EventType.LOG}
        assert [event.at for event in log] == [NOW + 1] * 3 + [NOW + 2]

    async def test_one_report_may_say_everything(self, store: Store, worker: str) -> None:
        """One report can carry progress, a phase and log entries."""
        lease = await run_job(store)
        entry = NewJobEvent(EventType.LOG, '{"message":"hi"}')
        await store.workers.report(lease, Report(Progress(1, 2), "working", (entry,)), NOW)
        job = await job_of(store, lease)
        assert (job.progress, job.phase, job.last_event) == (Progress(1, 2), "working", 4)
        log = await store.jobs.list_events(TENANT, lease.job_id, 2, 10)
        assert {event.type for event in log} == {EventType.LOG, EventType.PROGRESS}

    async def test_a_stale_report_changes_nothing(self, store: Store, worker: str) -> None:
        """A report with a stale lease returns False, changes nothing and is counted."""
        stale = await run_job(store)
        await settle(store, stale, Released(), NOW)
        current = await reclaim(store, stale.job_id)
        before = await job_of(store, current)
        entry = NewJobEvent(EventType.LOG, "{}")
        assert (
            await store.workers.report(stale, Report(Progress(9), "wrong", (entry,)), NOW) is False
        )
        assert await job_of(store, current) == before
        assert (
            len(await store.jobs.list_events(TENANT, current.job_id, 0, 100)) == before.last_event
        )
        assert (await store.maintenance.read_counters())["stale_writes"] == 1

    async def test_a_job_that_has_ended_says_nothing_more(self, store: Store, worker: str) -> None:
        """A report after the job has finished is rejected, so the last event is the final state."""
        lease = await run_job(store)
        await settle(store, lease, Succeeded("1"), NOW)
        before = await job_of(store, lease)
        assert await store.workers.report(lease, Report(Progress(9)), NOW) is False
        assert await job_of(store, lease) == before

    async def test_the_next_attempt_begins_afresh(self, store: Store, worker: str) -> None:
        """Progress and phase are reset for the next attempt; the event log is kept."""
        lease = await run_job(store)
        await store.workers.report(lease, Report(Progress(9, 10), "working"), NOW)
        await settle(store, lease, Errored(BOOM, retry_after_ms=0), NOW)
        job = await job_of(store, lease)
        assert (job.progress, job.phase) == (None, None)
        assert len(await store.jobs.list_events(TENANT, lease.job_id, 0, 100)) == 4

    async def test_the_last_progress_is_kept_at_the_end(self, store: Store, worker: str) -> None:
        """A finished job keeps its last progress."""
        lease = await run_job(store)
        await store.workers.report(lease, Report(Progress(10, 10)), NOW)
        await settle(store, lease, Succeeded("1"), NOW)
        assert (await job_of(store, lease)).progress == Progress(10, 10)

    async def test_reports_of_one_job_at_the_same_time_are_all_kept(
        self, store: Store, worker: str
    ) -> None:
        """Concurrent reports for one job are all recorded, and the last progress is stored."""
        lease = await run_job(store)
        said = [
            Report(Progress(n, 20), None, (NewJobEvent(EventType.LOG, f'{{"message":"{n}"}}'),))
            for n in range(20)
        ]
        said[7] = said[7]._replace(phase="seventh")
        answers = await asyncio.gather(*(store.workers.report(lease, one, NOW) for one in said))
        assert all(answers)

        job = await job_of(store, lease)
        assert (job.progress, job.phase) == (Progress(19, 20), "seventh")
        log = (await store.jobs.list_events(TENANT, lease.job_id, 0, 100))[2:]
        assert [event.type for event in log] == [EventType.LOG, EventType.PROGRESS] * 20
        assert [json.loads(event.data)["message"] for event in log[::2]] == [
            str(n) for n in range(20)
        ]
