"""Conformance tests for jobs that are submitted already finished: they read like any other job."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from coatcheck.errors import AccessChanged, BlobGone, Conflict, InputGone, NotFound, UploadGone
from coatcheck.model.access import Quotas
from coatcheck.model.artifact import MOST_OF_A_JOB, SmallFile, small_file
from coatcheck.model.event import EventType, NewJobEvent
from coatcheck.model.job import JobInsert, Progress, Terms
from coatcheck.model.outcome import GaveUp, Succeeded
from coatcheck.model.record import Record
from coatcheck.model.state import Reason, State
from coatcheck.model.webhook import Callback
from coatcheck.store.base import FinishedJob, JobFilter, Report, Settlement, Store, Topic
from coatcheck.testing.conformance.access import KEY, used
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    TENANT,
    Conformance,
    claim,
    everything,
    new_job,
    new_step,
    reclaim,
    run_job,
    states_of,
)
from coatcheck.testing.conformance.blobs import reference, unneeded
from coatcheck.testing.conformance.submission import full_job
from coatcheck.testing.conformance.uploads import uploaded
from coatcheck.testing.conformance.wakeups import LONG, SHORT, wakes
from coatcheck.testing.conformance.webhooks import EVERYTHING, called_back, of_job, put, told

BEGAN, END = NOW + 2, NOW + 17
DONE = FinishedJob(BEGAN, Succeeded("42"))
LIMITS = Quotas(*[2**40] * len(Quotas._fields))


def picture(job: JobInsert, name: str = "picture.svg") -> SmallFile:
    """Return an artifact of a job."""
    return small_file((job.tenant, job.id), name, "image/svg+xml", b"<svg/>", END)


def last_words(job: JobInsert) -> Report:
    """Return a report that uses every field."""
    loading = NewJobEvent(EventType.PROGRESS, '{"phase": "loading"}')
    child = new_job("child", id=job.id[:-1] + "Z", tenant=job.tenant)
    return Report(
        Progress(2, 3, "nearly"),
        "drawing",
        (NewJobEvent(EventType.LOG, '{"message":"hello"}'), loading),
        (new_step(0, "measure"), new_step(1, "draw")),
        (child._replace(terms=Terms(parent=job.id)),),
        (picture(job), picture(job, "legend.svg")),
    )


async def all_of(store: Store, tenant: str, job_id: str) -> dict[str, Any]:
    """Return everything the store shows of a tenant with this job, without the tenant's name."""
    jobs = await everything(store, tenant)
    return {
        "jobs": [
            replace(
                job, tenant="", artifacts=tuple(each._replace(key="") for each in job.artifacts)
            )
            for job in (await store.jobs.get(tenant, job_id), *jobs)
        ],
        "files": [
            await store.files.get_artifact_content(tenant, job_id, each.name)
            for each in jobs[-1].artifacts
        ],
        "events": await store.jobs.list_events(tenant, job_id, 0, 1_000),
        "steps": await store.jobs.list_steps(tenant, job_id),
        "input": await store.jobs.get_input(tenant, job_id),
        "usage": [each._replace(tenant="") for each in await used(store, tenant)],
        "load": await store.access.measure_load(tenant, LIMITS, END),
        "deliveries": [
            replace(each, key=each.key._replace(tenant=""))
            for each in await of_job(store, job_id, tenant=tenant)
        ],
    }


class FinishedJobConformance(Conformance):
    """Tests for `submit_finished`."""

    async def test_a_job_may_have_ended_before_it_is_written(self, store: Store) -> None:
        """A job submitted as succeeded has its result, artifacts, labels and a full event log."""
        terms = Terms(keep_succeeded_ms=100)
        job = new_job(labels='{"team":"maps"}', terms=terms)
        await store.jobs.submit_finished(
            job, DONE._replace(report=Report(files=(picture(job),))), END
        )

        found = await store.jobs.get(TENANT, job.id)
        assert (found.state, found.result, found.error) == (State.SUCCEEDED, "42", None)
        assert (found.attempt, found.fence, found.worker) == (1, 1, None)
        assert (found.created_at, found.started_at, found.finished_at) == (NOW, BEGAN, END)
        assert found.expires_at == END + 100
        assert found.artifacts == (picture(job).artifact,)
        content = await store.files.get_artifact_content(TENANT, job.id, "picture.svg")
        assert content == picture(job).content
        labelled = JobFilter(TENANT, labels=(("team", "maps"),))
        assert [each.id for each in await store.jobs.list_jobs(labelled)] == [job.id]
        log = await store.jobs.list_events(TENANT, job.id, 0, 10)
        assert [(event.seq, event.at) for event in log] == [(1, NOW), (2, BEGAN), (3, END)]
        assert await states_of(store, job.id) == ["queued", "running", "succeeded"]
        assert await store.jobs.get_input(TENANT, job.id) == job.input

    async def test_it_may_have_failed(self, store: Store) -> None:
        """A job submitted as failed has its error and reason, and the retention of failed jobs."""
        job = new_job(terms=Terms(keep_failed_ms=50))
        await store.jobs.submit_finished(job, FinishedJob(BEGAN, GaveUp(BOOM, Reason.TIMEOUT)), END)
        found = await store.jobs.get(TENANT, job.id)
        assert (found.state, found.reason, found.error) == (State.FAILED, Reason.TIMEOUT, BOOM)
        assert (found.result, found.attempt, found.expires_at) == (None, 1, END + 50)
        assert await states_of(store, job.id) == ["queued", "running", "failed"]

    @pytest.mark.parametrize("outcome", [Succeeded('"done"'), GaveUp(BOOM)])
    @pytest.mark.parametrize("speaks", [False, True], ids=["silent", "with last words"])
    async def test_it_is_as_if_a_worker_had_run_it(
        self, store: Store, worker: str, outcome: Succeeded | GaveUp, speaks: bool
    ) -> None:
        """A job submitted as finished reads the same as one that a worker claimed and settled."""
        own = Callback("https://example.com/own", "own", "phase running failed succeeded")
        short = full_job()._replace(tenant="short", webhook=own)
        long = short._replace(tenant="long")
        for tenant in ("short", "long"):
            events = f"{EVERYTHING} phase"
            await put(store, tenant=tenant, id="hook", lane=f"lane-{tenant}", events=events)

        said = last_words(short) if speaks else None
        await store.jobs.submit_finished(short, FinishedJob(BEGAN, outcome, said), END)
        await store.jobs.submit(long, NOW)
        [taken] = await claim(store, "chart", now=BEGAN)
        said = last_words(long) if speaks else None
        assert await store.workers.settle([Settlement(taken.lease, outcome, said)], END) == [True]

        expected = await all_of(store, "long", long.id)
        assert len(expected["deliveries"]) >= 4
        assert len(expected["jobs"]) == 2 + speaks
        assert await all_of(store, "short", short.id) == expected
        deleted = [await store.jobs.delete(each.tenant, each.id, END) for each in (short, long)]
        assert deleted[0] == deleted[1]

    async def test_there_is_nothing_to_claim(self, store: Store, worker: str) -> None:
        """A finished job never appears in a queue or a claim."""
        await store.jobs.submit_finished(new_job(), DONE, END)
        await store.jobs.submit_finished(new_job(limit_key="a", tenant="acme"), DONE, END)
        assert await store.queues.list_queues() == []
        assert await claim(store, now=END) == []
        assert await claim(store, now=END + 1_000_000) == []
        assert await store.workers.list_held_jobs(worker) == []

    async def test_what_it_has_spawned_is_claimed(self, store: Store, worker: str) -> None:
        """Children of a finished job wake the workers and can be claimed."""
        job = new_job()
        child = new_job("child", terms=Terms(parent=job.id))
        ended = DONE._replace(report=Report(children=(child,)))
        assert await wakes(store, Topic.WORK, store.jobs.submit_finished(job, ended, END))
        await reclaim(store, child.id, "child", now=END)

    async def test_no_worker_is_woken(self, store: Store) -> None:
        """A finished job wakes subscribers to changes, but not to work."""
        work, changes = store.subscribe(Topic.WORK), store.subscribe(Topic.CHANGES)
        await store.jobs.submit(new_job(), NOW)
        assert await work.wait(LONG) is True
        for signal in (work, changes):
            while await signal.wait(SHORT):
                continue  # drain earlier signals, so that only the submit below can wake
        await store.jobs.submit_finished(new_job(), DONE, END)
        assert await changes.wait(LONG) is True
        assert await work.wait(SHORT) is False
        work.close()
        changes.close()

    async def test_documents_that_lead_to_it_are_written_with_it(self, store: Store) -> None:
        """Records are written together with the job; a rejected submit writes none."""
        first, other = new_job(public_id="one"), new_job(public_id="one")
        said = (("a", '"old"'), ("a", '"new"'), ("b", '"drawn"'))
        old, link, drawn = (Record(TENANT, "links", *each, 0, NOW, END + 9) for each in said)
        await store.records.put_record(old)
        await store.jobs.submit_finished(first, DONE._replace(records=(link, drawn)), END)
        found = await store.records.list_records(TENANT, "links", END)
        assert [(each.key, each.value, each.version) for each in found] == [
            ("a", '"new"', 2),
            ("b", '"drawn"', 1),
        ]
        with pytest.raises(Conflict):
            await store.jobs.submit_finished(other, DONE._replace(records=(old,)), END)
        assert await store.records.list_records(TENANT, "links", END) == found

    async def test_webhooks_are_told_of_one_that_has_ended(self, store: Store) -> None:
        """Deliveries are created for the tenant's endpoints and the job's own; the sender wakes."""
        await put(store)
        job = called_back("running succeeded")
        assert await wakes(store, Topic.WEBHOOKS, store.jobs.submit_finished(job, DONE, END))
        assert await told(store, job.id) == ["job.running", *["job.succeeded"] * 2]
        begun = called_back("running", tenant="acme")
        assert await wakes(store, Topic.WEBHOOKS, store.jobs.submit_finished(begun, DONE, END))
        assert [each.type for each in await of_job(store, begun.id, tenant="acme")] == [
            "job.running"
        ]

    async def test_a_failed_one_can_go_on(self, store: Store, worker: str) -> None:
        """A job submitted as failed can be resumed, and a worker then claims it."""
        job = new_job()
        await store.jobs.submit_finished(job, FinishedJob(BEGAN, GaveUp(BOOM)), END)
        assert (await store.jobs.resume(TENANT, job.id, END)).state is State.QUEUED
        [taken] = await claim(store, now=END)
        assert (taken.lease.fence, taken.attempt, taken.input) == (2, 1, job.input)

    # --- ids, the epoch, uploads

    async def test_one_that_is_there_is_left_as_it_is(self, store: Store) -> None:
        """Repeating a submit, even with another outcome, leaves the job and its usage unchanged."""
        job = called_back("failed", public_id="r_42")
        await store.jobs.submit_finished(job, DONE, END)
        before = await store.jobs.get(TENANT, job.id), await used(store)
        await store.jobs.submit_finished(job, DONE, END + 1)
        await store.jobs.submit_finished(
            job, FinishedJob(BEGAN, GaveUp(BOOM), last_words(job)), END + 2
        )
        await store.jobs.submit(job, END + 3)
        assert (await store.jobs.get(TENANT, job.id), await used(store)) == before
        assert len(await everything(store)) == 1
        assert await states_of(store, job.id) == ["queued", "running", "succeeded"]
        assert await told(store, job.id) == []
        assert (await store.maintenance.read_counters()).get("stale_writes", 0) == 0

    async def test_one_that_has_not_ended_goes_on(self, store: Store, worker: str) -> None:
        """A queued or running job with the same id is not overwritten."""
        lease, waiting = await run_job(store), new_job()
        await store.jobs.submit(waiting, NOW)
        await store.jobs.submit_finished(new_job(id=lease.job_id), DONE, END)
        await store.jobs.submit_finished(waiting, DONE, END)
        assert (await store.jobs.get(TENANT, lease.job_id)).state is State.RUNNING
        assert (await store.jobs.get(TENANT, waiting.id)).state is State.QUEUED
        await reclaim(store, waiting.id)

    async def test_many_at_once_are_each_as_if_alone(self, store: Store) -> None:
        """Concurrent submits of one id create one job, and conflicts do not affect the others."""
        await store.jobs.submit(new_job("chart", public_id="taken"), NOW)
        same, others = new_job(), [new_job() for _ in range(10)]
        refused = [new_job(public_id="taken") for _ in range(3)]
        jobs = [*[same] * 5, *others[:5], *refused, *others[5:], *[same] * 5]
        answers = await asyncio.gather(
            *(store.jobs.submit_finished(job, DONE, END) for job in jobs), return_exceptions=True
        )
        wrong = [answer for answer in answers if answer is not None]
        assert [isinstance(answer, Conflict) for answer in wrong] == [True] * 3
        ended = await store.jobs.list_jobs(JobFilter(TENANT, state=State.SUCCEEDED))
        assert {job.id for job in ended} == {job.id for job in (same, *others)}
        assert await states_of(store, same.id) == ["queued", "running", "succeeded"]

    async def test_one_whose_public_id_is_taken_is_refused(self, store: Store) -> None:
        """A public id in use raises `Conflict` and writes nothing; another one is accepted."""
        await store.jobs.submit(new_job(public_id="r_42"), NOW)
        before = await everything(store), await used(store)
        job = new_job(public_id="r_42")
        ended = DONE._replace(report=last_words(job))
        with pytest.raises(Conflict):
            await store.jobs.submit_finished(job, ended, END)
        assert (await everything(store), await used(store)) == before
        await nothing_is_left(store, job)
        await store.jobs.submit_finished(job._replace(public_id="r_43"), ended, END)
        assert (await store.jobs.get(TENANT, "r_43")).id == job.id

    async def test_under_an_old_epoch_no_end_is_written(self, store: Store) -> None:
        """A submit with an outdated epoch is rejected, even if the job already exists."""
        old = (await store.access.get_state()).epoch
        await store.access.add_key(KEY)
        job = new_job()
        with pytest.raises(AccessChanged):
            await store.jobs.submit_finished(job, DONE, END, old)
        await nothing_is_left(store, job)
        assert await used(store) == []
        await store.jobs.submit_finished(job, DONE, END, (await store.access.get_state()).epoch)
        assert (await store.jobs.get(TENANT, job.id)).state is State.SUCCEEDED
        with pytest.raises(AccessChanged):
            await store.jobs.submit_finished(job, DONE, END, old)

    async def test_a_write_that_fails_leaves_nothing(self, store: Store) -> None:
        """A missing blob, too many artifacts or a rejected child each roll back the whole write."""
        await put(store, events=EVERYTHING)
        await store.jobs.submit(new_job("chart", tenant="acme", public_id="taken"), NOW)
        before = await used(store, "acme")
        job = new_job(tenant="acme", labels='{"team":"maps"}')
        files = tuple(picture(job, f"file-{n}") for n in range(MOST_OF_A_JOB + 1))
        child = new_job("child", tenant="acme", public_id="taken")
        for ended, error in (
            (FinishedJob(BEGAN, Succeeded(reference("gone")), last_words(job)), BlobGone),
            (DONE._replace(report=last_words(job)._replace(files=files)), Conflict),
            (DONE._replace(report=last_words(job)._replace(children=(child,))), Conflict),
        ):
            with pytest.raises(error):
                await store.jobs.submit_finished(job, ended, END)
            await nothing_is_left(store, job)
            assert await used(store, "acme") == before
            assert len(await everything(store, "acme")) == 1
        await store.jobs.submit_finished(job, DONE, END)
        assert (await store.jobs.get("acme", job.id)).last_event == 3

    async def test_it_takes_its_uploads_over(self, store: Store) -> None:
        """A finished job takes over its uploads once, even if they are deleted when it ends.

        A second job that names the same upload is rejected.
        """
        kept, dropped = await uploaded(store, "kept"), await uploaded(store, "dropped")
        job = new_job(uploads=(kept,))
        brief = new_job(uploads=(dropped,), input_until=0)
        for _ in range(2):
            await store.jobs.submit_finished(job, DONE, END)
            await store.jobs.submit_finished(brief, DONE, END)
        assert await store.files.list_uploads(TENANT, job.id) == [kept]
        assert await store.files.list_uploads(TENANT, brief.id) == []
        with pytest.raises(InputGone):
            await store.jobs.get_input(TENANT, brief.id)
        assert await unneeded(store) == ["dropped"]
        for upload in (kept, dropped):
            second = new_job(uploads=(upload,))
            with pytest.raises(UploadGone):
                await store.jobs.submit_finished(second, DONE, END)
            await nothing_is_left(store, second)


async def nothing_is_left(store: Store, job: JobInsert) -> None:
    """Assert that the store has no trace of a job."""
    with pytest.raises(NotFound):
        await store.jobs.get(job.tenant, job.id)
    assert await store.jobs.list_events(job.tenant, job.id, 0, 10) == []
    assert await store.jobs.list_steps(job.tenant, job.id) == []
    assert await store.files.get_artifact_content(job.tenant, job.id, "picture.svg") is None
    assert await of_job(store, job.id, tenant=job.tenant) == []
