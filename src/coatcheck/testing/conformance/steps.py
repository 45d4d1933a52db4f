"""Conformance tests for steps: recorded durably, under the fence."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

from coatcheck.model.event import EventType, NewJobEvent
from coatcheck.model.job import Progress
from coatcheck.model.outcome import Released, Succeeded
from coatcheck.model.state import State
from coatcheck.model.step import Op, StepId, StepState
from coatcheck.store.base import DeletedJob, Report, Settlement, Store
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    TENANT,
    Conformance,
    child_of,
    job_of,
    new_step,
    reclaim,
    run_job,
    settle,
)


class StepConformance(Conformance):
    """Tests for `Report.steps`, `Report.children` and `list_steps`."""

    async def test_steps_are_kept_with_all_that_is_known_of_them(
        self, store: Store, worker: str
    ) -> None:
        """Steps keep every field and are listed by number, in whatever order they were written."""
        lease = await run_job(store)
        steps = [
            new_step(0, result='{"text":"\\u00e4 \\ud83d\\ude80 \\"quoted\\""}'),
            new_step(1, "load", id=StepId(Op.STEP, "load", "k/1", 0), overlapped=True, attempts=3),
            new_step(
                2,
                "sleep",
                id=StepId(Op.SLEEP, "sleep", None, 4),
                state=StepState.WAITING,
                finished_at=None,
                result=None,
                wake_at=NOW + 5,
            ),
            new_step(3, "send", state=StepState.FAILED, result=None, error=BOOM, survived=True),
        ]
        assert await store.workers.report(lease, Report(steps=(steps[3], steps[1])), NOW)
        assert await store.workers.report(lease, Report(steps=(steps[2], steps[0])), NOW)
        assert await store.jobs.list_steps(TENANT, lease.job_id) == steps
        assert await store.jobs.list_steps("somebody-else", lease.job_id) == []

    async def test_each_step_is_an_entry_of_the_log(self, store: Store, worker: str) -> None:
        """A step's event has its identity and its state, but not its result."""
        lease = await run_job(store)
        failed = new_step(1, "load", state=StepState.FAILED, attempts=2, result=None, error=BOOM)
        keyed = new_step(2, id=StepId(Op.CHILD, "mail", "7", 0))
        await store.workers.report(lease, Report(steps=(new_step(0), failed, keyed)), NOW + 3)
        log = await store.jobs.list_events(TENANT, lease.job_id, 2, 10)
        assert [(event.seq, event.type, event.at) for event in log] == [
            (3, EventType.STEP, NOW + 3),
            (4, EventType.STEP, NOW + 3),
            (5, EventType.STEP, NOW + 3),
        ]
        first, second, third = (json.loads(event.data) for event in log)
        assert first == {
            "seq": 0,
            "op": "step",
            "name": "extract",
            "key": None,
            "occurrence": 0,
            "state": "succeeded",
            "attempts": 1,
        }
        assert (second["state"], second["attempts"]) == ("failed", 2)
        assert second["error"] == {"code": "boom"}
        assert (third["op"], third["key"], third.get("occurrence")) == ("child", "7", None)
        assert (await job_of(store, lease)).last_event == 5

    async def test_the_log_has_what_was_said_before_what_was_done(
        self, store: Store, worker: str
    ) -> None:
        """Events of one report are ordered: log entries, progress, then steps as given."""
        lease = await run_job(store)
        said = Report(
            Progress(1, 2),
            "loading",
            (NewJobEvent(EventType.LOG, "{}"), NewJobEvent(EventType.OUTPUT, "1")),
            (new_step(1, "b"), new_step(0, "a")),
        )
        await store.workers.report(lease, said, NOW)
        log = await store.jobs.list_events(TENANT, lease.job_id, 2, 10)
        assert [event.type for event in log] == ["log", "output", "progress", "step", "step"]
        assert [json.loads(event.data)["name"] for event in log[3:]] == ["b", "a"]

    async def test_a_step_replaces_what_is_there_under_its_number(
        self, store: Store, worker: str
    ) -> None:
        """A step written with an existing number replaces the earlier version."""
        lease = await run_job(store)
        waiting = new_step(
            state=StepState.WAITING, finished_at=None, result=None, error=BOOM, wake_at=NOW + 9
        )
        done = new_step(attempts=2, overlapped=True)
        await store.workers.report(lease, Report(steps=(waiting,)), NOW)
        await store.workers.report(lease, Report(steps=(done,)), NOW)
        assert await store.jobs.list_steps(TENANT, lease.job_id) == [done]
        failed = new_step(state=StepState.FAILED, result=None, error=BOOM)
        for step in (failed, replace(failed, survived=True)):
            await store.workers.report(lease, Report(steps=(step,)), NOW)
            assert await store.jobs.list_steps(TENANT, lease.job_id) == [step]
        assert (await job_of(store, lease)).last_event == 6

    async def test_a_step_that_is_written_twice_is_there_once(
        self, store: Store, worker: str
    ) -> None:
        """A repeated report writes each step and its event once."""
        lease = await run_job(store)
        report = Report(steps=(new_step(0), new_step(1, "load")))
        assert await store.workers.report(lease, report, NOW)
        before = await job_of(store, lease)
        assert await store.workers.report(lease, report, NOW + 1)
        assert await store.workers.report(lease, Report(steps=(new_step(1, "load"),)), NOW + 1)
        assert await job_of(store, lease) == before
        assert await store.jobs.list_steps(TENANT, lease.job_id) == list(report.steps)
        assert (
            len(await store.jobs.list_events(TENANT, lease.job_id, 0, 100))
            == before.last_event
            == 4
        )

    async def test_a_stale_lease_writes_no_step_and_no_child(
        self, store: Store, worker: str
    ) -> None:
        """A report or settlement with a stale lease writes neither steps nor children."""
        stale = await run_job(store)
        await store.workers.report(stale, Report(steps=(new_step(),)), NOW)
        await settle(store, stale, Released())
        current = await reclaim(store, stale.job_id)
        before = await job_of(store, current)
        child = child_of(stale)
        report = Report(steps=(new_step(result='"other"', attempts=2), new_step(1)))
        assert not await store.workers.report(stale, report._replace(children=(child,)), NOW)
        ended = Settlement(stale, Succeeded("1"), report._replace(children=(child,)))
        assert await store.workers.settle([ended], NOW) == [False]
        assert await job_of(store, current) == before
        assert await store.jobs.list_steps(TENANT, current.job_id) == [new_step()]
        assert await store.jobs.get_many([(TENANT, child.id)]) == []

    async def test_steps_survive_the_attempt(self, store: Store, worker: str) -> None:
        """A job keeps its recorded steps for the next attempt after its worker is lost."""
        lease = await run_job(store)
        await store.workers.report(lease, Report(steps=(new_step(),)), NOW)
        await store.workers.remove_worker(worker, None, NOW)
        assert await store.jobs.list_steps(TENANT, lease.job_id) == [new_step()]

    async def test_last_steps_come_with_the_end(self, store: Store, worker: str) -> None:
        """Steps settled with an outcome are logged before the final state."""
        lease = await run_job(store)
        ended = Settlement(lease, Succeeded("1"), Report(steps=(new_step(),)))
        assert await store.workers.settle([ended], NOW) == [True]
        assert await store.workers.settle([ended], NOW) == [True]
        assert await store.jobs.list_steps(TENANT, lease.job_id) == [new_step()]
        log = await store.jobs.list_events(TENANT, lease.job_id, 2, 10)
        assert [event.type for event in log] == ["step", "state"]

    async def test_children_are_submitted_with_the_step_that_names_them(
        self, store: Store, worker: str
    ) -> None:
        """A child is submitted once with its parent's id, even if the report is repeated."""
        lease = await run_job(store)
        child = child_of(lease)
        spawned = new_step(id=StepId(Op.CHILD, "child", None, 0), result=json.dumps(child.id))
        for _ in range(2):
            assert await store.workers.report(
                lease, Report(steps=(spawned,), children=(child,)), NOW
            )
        found = await store.jobs.get(TENANT, child.id)
        assert (found.state, found.kind, found.terms.parent) == (
            State.QUEUED,
            "child",
            lease.job_id,
        )
        again = await reclaim(store, child.id, "child")
        assert (again.fence, found.last_event) == (1, 1)
        assert (await job_of(store, lease)).last_event == 3

    async def test_steps_written_at_the_same_time_are_all_kept(
        self, store: Store, worker: str
    ) -> None:
        """Concurrent reports of parallel steps are all recorded."""
        lease = await run_job(store)
        steps = [new_step(n, id=StepId(Op.STEP, "load", str(n), 0)) for n in range(30)]
        answers = await asyncio.gather(
            *(store.workers.report(lease, Report(steps=(step,)), NOW) for step in steps)
        )
        assert all(answers)
        assert await store.jobs.list_steps(TENANT, lease.job_id) == steps
        log = await store.jobs.list_events(TENANT, lease.job_id, 2, 100)
        assert sorted(json.loads(event.data)["seq"] for event in log) == list(range(30))

    async def test_they_are_deleted_with_their_job(self, store: Store, worker: str) -> None:
        """Deleting a job deletes its steps and events, and the receipt counts them."""
        lease = await run_job(store)
        await store.workers.report(lease, Report(steps=(new_step(0), new_step(1))), NOW)
        await store.jobs.send_event(TENANT, lease.job_id, "hello", "1", NOW)
        await settle(store, lease, Succeeded("1"))
        deleted = await store.jobs.delete(TENANT, lease.job_id, NOW)
        assert deleted == DeletedJob(lease.job_id, payloads=2, events=5, steps=2, messages=1)
        assert await store.jobs.list_steps(TENANT, lease.job_id) == []
        assert await store.jobs.list_sent_events(TENANT, lease.job_id) == []
