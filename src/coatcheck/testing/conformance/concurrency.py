"""Conformance tests for concurrent calls: each behaves as if the calls ran one after another."""

from __future__ import annotations

import asyncio

from coatcheck.errors import Conflict, NotFound, StoreUnavailable
from coatcheck.model.job import Lease
from coatcheck.model.outcome import Errored, Outcome, Released, Succeeded
from coatcheck.model.record import Record
from coatcheck.model.state import State
from coatcheck.store.base import Store
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    TENANT,
    Conformance,
    claim,
    everything,
    job_of,
    new_id,
    new_job,
    reclaim,
    run_job,
    settle,
    states_of,
)


class ConcurrencyConformance(Conformance):
    """Tests for overlapping calls, `ping` and `close`."""

    async def test_two_workers_never_share_a_job(
        self, store: Store, worker: str, other_worker: str
    ) -> None:
        """Overlapping claims assign each job to exactly one worker."""
        jobs = [new_job(kind) for _ in range(100) for kind in ("mail", "chart")]
        await store.jobs.submit_batch(jobs, NOW)
        claims = await asyncio.gather(
            *(
                claim(store, "mail", "chart", worker=name, limit=9)
                for _ in range(15)
                for name in (worker, other_worker)
            )
        )
        # A claim may skip jobs that another claim has locked, so collect the rest afterwards.
        claims.append(await claim(store, "mail", "chart", limit=200))
        taken = [one.lease.job_id for some in claims for one in some]
        assert sorted(taken) == sorted(job.id for job in jobs)
        assert {job.fence for job in await everything(store)} == {1}

    async def test_submits_of_one_id_make_one_job(self, store: Store) -> None:
        """Concurrent submits of the same job id create one job."""
        job = new_job(public_id="r_42")
        await asyncio.gather(*(store.jobs.submit(job, NOW) for _ in range(20)))
        assert len(await everything(store)) == 1
        assert await states_of(store, job.id) == ["queued"]

    async def test_one_public_id_goes_to_one_of_many(self, store: Store) -> None:
        """Only one of several concurrent submits with the same public id succeeds."""
        answers = await asyncio.gather(
            *(store.jobs.submit(new_job(public_id="r_42"), NOW) for _ in range(10)),
            return_exceptions=True,
        )
        assert sum(answer is None for answer in answers) == 1
        assert sum(isinstance(answer, Conflict) for answer in answers) == 9
        assert len(await everything(store)) == 1

    async def test_who_is_refused_does_not_disturb_the_others(
        self, store: Store, worker: str
    ) -> None:
        """Conflicts, stale writes and unknown jobs do not affect concurrent writes that succeed."""
        await store.jobs.submit(new_job("chart", public_id="taken"), NOW)
        lease = await run_job(store)
        good = [new_job() for _ in range(30)]
        calls = []
        for n, job in enumerate(good):
            calls.append(store.jobs.submit(job, NOW))
            if n % 3 == 0:
                calls.append(store.jobs.submit(new_job(public_id="taken"), NOW))
            if n % 5 == 0:
                calls.append(store.jobs.submit_batch([new_job(), new_job(public_id="taken")], NOW))
        answers = await asyncio.gather(
            *calls,
            store.jobs.cancel(TENANT, new_id(), NOW),
            settle(store, lease._replace(fence=99), Succeeded("1"), NOW),
            settle(store, lease, Succeeded("2"), NOW),
            return_exceptions=True,
        )
        assert isinstance(answers[-3], NotFound)
        assert answers[-2:] == [False, True]
        refused = [answer for answer in answers[:-3] if answer is not None]
        assert len(refused) == 16
        assert all(isinstance(answer, Conflict) for answer in refused)
        assert {job.id for job in await everything(store) if job.kind == "mail"} == {
            lease.job_id,
            *(job.id for job in good),
        }
        assert (await job_of(store, lease)).result == "2"

    async def test_of_an_old_and_a_new_lease_only_the_new_one_counts(
        self, store: Store, worker: str
    ) -> None:
        """Only the new lease settles the job, in either order of the calls."""
        for old_first in (True, False):
            old = await run_job(store)
            await settle(store, old, Released(), NOW)
            new = await reclaim(store, old.job_id)
            pair = [(old, '"old"'), (new, '"new"')]
            answers = await asyncio.gather(
                *(
                    settle(store, lease, Succeeded(result), NOW)
                    for lease, result in (pair if old_first else reversed(pair))
                )
            )
            assert answers == ([False, True] if old_first else [True, False])
            assert (await job_of(store, new)).result == '"new"'

    async def test_an_attempt_ends_once_however_often_it_is_settled(
        self, store: Store, worker: str
    ) -> None:
        """Only one of several concurrent settlements of a lease takes effect; all return True."""
        lease = await run_job(store)
        outcomes: list[Outcome] = [Succeeded('"a"'), Errored(BOOM, 0), Released(), Succeeded('"b"')]
        answers = await asyncio.gather(*(settle(store, lease, one, NOW) for one in outcomes))
        assert answers == [True] * 4
        job = await job_of(store, lease)
        assert job.last_event == 3
        assert len(await states_of(store, lease.job_id)) == 3

    async def test_a_cancel_and_a_success_at_once_leave_one_end(
        self, store: Store, worker: str
    ) -> None:
        """A running job that succeeds while it is being cancelled ends as succeeded."""
        leases = [await run_job(store) for _ in range(10)]
        await asyncio.gather(
            *(store.jobs.cancel(TENANT, lease.job_id, NOW) for lease in leases),
            *(settle(store, lease, Succeeded("1"), NOW) for lease in leases),
        )
        for lease in leases:
            assert (await job_of(store, lease)).state is State.SUCCEEDED
            states = await states_of(store, lease.job_id)
            assert states.count("succeeded") == 1
            assert states[-1] == "succeeded"

    async def test_a_lost_worker_and_its_settles_at_once(
        self, store: Store, worker: str, other_worker: str
    ) -> None:
        """Each job is either settled or lost, and the return values say which."""
        leases: list[Lease] = [await run_job(store) for _ in range(20)]
        *settled, lost = await asyncio.gather(
            *(settle(store, lease, Succeeded("1"), NOW) for lease in leases[:10]),
            *(settle(store, lease, Succeeded("1"), NOW) for lease in leases[10:]),
            store.workers.remove_worker(worker, None, NOW),
        )
        assert lost == settled.count(False)
        for lease, answer in zip(leases, settled, strict=True):
            state = (await job_of(store, lease)).state
            assert state is (State.SUCCEEDED if answer else State.QUEUED)

    async def test_one_writer_makes_a_document(self, store: Store) -> None:
        """Only one of several concurrent writers that expect version 0 writes the record."""
        answers = await asyncio.gather(
            *(
                store.records.put_record(
                    Record(TENANT, "c", "k", str(n), 0, NOW), expected_version=0
                )
                for n in range(10)
            )
        )
        written = [answer for answer in answers if answer is not None]
        assert len(written) == 1
        assert await store.records.get_record(TENANT, "c", "k", NOW) == written[0]

    async def test_a_store_that_is_open_answers_a_ping(self, store: Store) -> None:
        """An open store answers `ping`."""
        await store.ping()

    async def test_closing_finishes_the_writes_under_way(self, store: Store) -> None:
        """`close` completes each pending write or fails it with `StoreUnavailable`."""
        jobs = [new_job() for _ in range(50)]
        calls = [asyncio.ensure_future(store.jobs.submit(job, NOW)) for job in jobs]
        answers = asyncio.gather(*calls, return_exceptions=True)
        await asyncio.sleep(0)  # let every call start
        await store.close()
        for answer in await answers:
            assert answer is None or isinstance(answer, StoreUnavailable)
        await store.open()
        kept = {job.id for job in await everything(store)}
        for job, answer in zip(jobs, await answers, strict=True):
            assert (job.id in kept) or answer is not None
