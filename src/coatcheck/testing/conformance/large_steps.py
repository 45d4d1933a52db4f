"""Conformance tests for step results and sent events in blobs, and for the event limit."""

from __future__ import annotations

import pytest

from coatcheck.errors import BlobGone, Conflict, KeyReused
from coatcheck.model.outcome import GaveUp, Succeeded, Waiting
from coatcheck.model.payload import BlobName, BlobReference, write_reference
from coatcheck.model.step import Op, StepId, event_sent
from coatcheck.store.base import Report, Settlement, Store
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    TENANT,
    Conformance,
    job_of,
    new_job,
    new_step,
    run_job,
    settle,
)
from coatcheck.testing.conformance.blobs import LATER, SHA, reference, reserve, unneeded


def of_job(job_id: str, name: str, sha256: str = SHA) -> str:
    """Return a payload that refers to a blob of this job."""
    return write_reference(BlobReference(f"jobs/{job_id}/{name}", 100_000, sha256))


class LargeStepConformance(Conformance):
    """Tests for `report`, `settle`, `send_event` and `fork` with payloads in blobs."""

    async def test_a_step_keeps_the_blob_of_its_result(self, store: Store, worker: str) -> None:
        """A reported step keeps its blob; a stale report keeps none."""
        lease = await run_job(store)
        await reserve(store, lease, "in-time")
        await reserve(store, lease, "late")
        step, late = new_step(0, result=reference("in-time")), new_step(1, result=reference("late"))
        stale = lease._replace(fence=lease.fence - 1)
        assert not await store.workers.report(stale, Report(steps=(late,)), NOW)
        assert await store.workers.report(lease, Report(steps=(step,)), NOW)
        assert await store.workers.report(lease, Report(steps=(step,)), NOW)  # no effect
        assert await store.jobs.list_steps(TENANT, lease.job_id) == [step]
        assert await unneeded(store) == ["late"]

    async def test_a_step_written_with_the_end_keeps_its_blob(
        self, store: Store, worker: str
    ) -> None:
        """A step settled together with a final or a waiting outcome keeps its blob."""
        first, second = await run_job(store), await run_job(store)
        for lease, outcome in ((first, Succeeded("1")), (second, Waiting(NOW + 5, ()))):
            await reserve(store, lease, f"out-{lease.job_id}")
            step = new_step(0, result=reference(f"out-{lease.job_id}"))
            ends = [Settlement(lease, outcome, Report(steps=(step,)))]
            assert await store.workers.settle(ends, NOW) == [True]
        assert await unneeded(store) == []

    async def test_a_step_whose_blob_is_gone_is_not_written(
        self, store: Store, worker: str
    ) -> None:
        """A step with a missing blob rejects the whole report."""
        lease = await run_job(store)
        steps = (new_step(0), new_step(1, result=reference("never-noted")))
        with pytest.raises(BlobGone):
            await store.workers.report(lease, Report(phase="late", steps=steps), NOW)
        assert await store.jobs.list_steps(TENANT, lease.job_id) == []
        assert (await job_of(store, lease)).phase is None

    async def test_deleting_the_job_gives_the_blobs_of_its_history_up(
        self, store: Store, worker: str
    ) -> None:
        """Deleting a job releases the blobs of its steps and events; the receipt counts them."""
        lease = await run_job(store)
        await reserve(store, lease, "step")
        await reserve(store, lease, "event")
        await store.workers.report(
            lease, Report(steps=(new_step(0, result=reference("step")),)), NOW
        )
        await store.jobs.send_event(TENANT, lease.job_id, "go", reference("event"), NOW)
        await settle(store, lease, GaveUp(BOOM))
        deleted = await store.jobs.delete(TENANT, lease.job_id, NOW)
        assert (deleted.steps, deleted.messages, deleted.blobs) == (1, 1, 2)
        assert await unneeded(store, NOW) == ["event", "step"]

    async def test_an_event_keeps_its_blob_and_so_does_the_step_that_takes_it(
        self, store: Store, worker: str
    ) -> None:
        """A sent event keeps its blob, and a missing blob raises `BlobGone`."""
        lease = await run_job(store)
        await reserve(store, lease, "event")
        with pytest.raises(BlobGone):
            await store.jobs.send_event(TENANT, lease.job_id, "go", reference("never-noted"), NOW)
        await settle(store, lease, Waiting(None, ((event_sent("go", 0),),)))
        job = await store.jobs.send_event(
            TENANT, lease.job_id, "go", reference("event"), NOW, "key"
        )
        assert job.state == "queued"
        [message] = await store.jobs.list_sent_events(TENANT, lease.job_id)
        assert message.data == reference("event")
        assert await unneeded(store) == []

    async def test_the_same_large_event_under_its_key_is_one(
        self, store: Store, worker: str
    ) -> None:
        """Repeating an event with its key keeps the first blob; the second blob is removed.

        Different content under the same key raises `KeyReused`.
        """
        lease = await run_job(store)
        for name in ("first", "second", "other"):
            await reserve(store, lease, f"jobs/{lease.job_id}/{name}")
        job = lease.job_id
        await store.jobs.send_event(TENANT, job, "go", of_job(job, "first"), NOW, "key")
        await store.jobs.send_event(TENANT, job, "go", of_job(job, "second"), NOW, "key")
        with pytest.raises(KeyReused):
            await store.jobs.send_event(
                TENANT, job, "go", of_job(job, "other", "cd" * 32), NOW, "key"
            )
        assert [message.data for message in await store.jobs.list_sent_events(TENANT, job)] == [
            of_job(job, "first")
        ]
        assert await unneeded(store) == [f"jobs/{job}/other", f"jobs/{job}/second"]

    async def test_a_fork_has_copies_of_its_own(self, store: Store, worker: str) -> None:
        """A fork refers to copies of the blobs of its steps and of the events they consumed."""
        lease = await run_job(store)
        source, fork = lease.job_id, new_job(forked_from=lease.job_id)
        for name in ("step", "event"):
            await reserve(store, lease, f"jobs/{source}/{name}")
            await store.files.reserve_blob(
                BlobName(TENANT, fork.id, f"jobs/{fork.id}/{name}"), LATER
            )
        await store.jobs.send_event(TENANT, source, "go", of_job(source, "event"), NOW)
        taken = new_step(
            1, "go", id=StepId(Op.EVENT, "go", None, 0), result=of_job(source, "event")
        )
        steps = (new_step(0, result=of_job(source, "step")), taken, new_step(2))
        await store.workers.report(lease, Report(steps=steps), NOW)

        with pytest.raises(Conflict):  # one of them would still belong to the source
            copies = {of_job(source, "step"): of_job(fork.id, "step")}
            await store.jobs.fork(source, 2, fork, NOW, copies)
        copies[of_job(source, "event")] = of_job(fork.id, "event")
        await store.jobs.fork(source, 2, fork, NOW, copies)

        assert [step.result for step in await store.jobs.list_steps(TENANT, fork.id)] == [
            of_job(fork.id, "step"),
            of_job(fork.id, "event"),
        ]
        [message] = await store.jobs.list_sent_events(TENANT, fork.id)
        assert message.data == of_job(fork.id, "event")
        assert await store.jobs.list_steps(TENANT, source) == list(steps)
        await settle(store, lease, GaveUp(BOOM))
        await store.jobs.delete(TENANT, source, NOW)
        assert await unneeded(store) == [f"jobs/{source}/event", f"jobs/{source}/step"]

    async def test_a_job_takes_so_many_events_and_no_more(self, store: Store, worker: str) -> None:
        """A job at its event limit rejects new events but still accepts a repeated one."""
        lease = await run_job(store)
        job = lease.job_id
        for number, name in enumerate(("go", "stop", "go")):
            await store.jobs.send_event(TENANT, job, name, "1", NOW, f"key-{number}", 3)
        with pytest.raises(Conflict, match="3 events"):
            await store.jobs.send_event(TENANT, job, "go", "1", NOW, "another", 3)
        await store.jobs.send_event(TENANT, job, "go", "1", NOW, "key-2", 3)
        assert len(await store.jobs.list_sent_events(TENANT, job)) == 3
        other = await run_job(store)
        await store.jobs.send_event(TENANT, other.job_id, "go", "1", NOW, "another", 3)
