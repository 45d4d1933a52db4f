"""Conformance tests for the status of queues and for pausing them."""

from __future__ import annotations

from coatcheck.model.outcome import Errored, Succeeded
from coatcheck.model.state import State
from coatcheck.store.base import QueueStatus, Store
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    Conformance,
    claim,
    claimed_ids,
    job_of,
    new_job,
    run_job,
    settle,
)


class QueueConformance(Conformance):
    """Tests for `list_queues`, `list_queue_names`, `pause_queue` and `is_restricted`."""

    async def test_a_queue_tells_how_many_jobs_it_holds(self, store: Store, worker: str) -> None:
        """A queue counts its ready, delayed and running jobs across all kinds and tenants."""
        await run_job(store)
        await run_job(store, new_job("chart"))
        await store.jobs.submit_batch(
            [
                new_job(created_at=NOW + 20),
                new_job("chart", tenant="acme", created_at=NOW + 10),
                new_job("other", created_at=NOW + 30),
                new_job(run_at=NOW + 5_000),
            ],
            NOW + 50,
        )
        assert await store.queues.list_queues() == [
            QueueStatus(
                "default", paused=False, ready=3, delayed=1, running=2, oldest_ready=NOW + 10
            )
        ]

    async def test_the_queues_of_a_tenant_are_those_of_its_jobs(
        self, store: Store, worker: str
    ) -> None:
        """Queue names of a tenant are sorted, unique and limited in number."""
        await run_job(store, new_job(queue="b", tenant="acme"))
        await store.jobs.submit_batch(
            [
                new_job(queue="c", tenant="acme"),
                new_job(queue="c", tenant="acme"),
                new_job(queue="a", tenant="acme", run_at=NOW + 5_000),
                new_job(queue="z"),
            ],
            NOW,
        )
        assert await store.queues.list_queue_names("acme", 10) == ["a", "b", "c"]
        assert await store.queues.list_queue_names("acme", 2) == ["a", "b"]
        assert await store.queues.list_queue_names("nobody", 10) == []

    async def test_queues_are_listed_by_name(self, store: Store, worker: str) -> None:
        """Each queue that holds jobs is listed with its own counts."""
        await run_job(store, new_job(queue="b"))
        await store.jobs.submit_batch([new_job(queue=name) for name in ("c", "a", "c")], NOW)
        await store.jobs.submit(new_job(queue="d", run_at=NOW + 1), NOW)
        listed = [(q.name, q.ready, q.delayed, q.running) for q in await store.queues.list_queues()]
        assert listed == [("a", 1, 0, 0), ("b", 0, 0, 1), ("c", 2, 0, 0), ("d", 0, 1, 0)]

    async def test_a_queue_is_held_by_a_pause_or_a_limit(self, store: Store) -> None:
        """A queue is restricted until it is neither paused nor limited."""
        assert not await store.queues.is_restricted("a")
        await store.queues.pause_queue("a", True, NOW)
        await store.queues.limit_queue("a", 2)
        assert (await store.queues.is_restricted("a"), await store.queues.is_restricted("b")) == (
            True,
            False,
        )
        await store.queues.pause_queue("a", False, NOW)
        assert await store.queues.is_restricted("a")
        await store.queues.limit_queue("a", None)
        assert not await store.queues.is_restricted("a")

    async def test_an_empty_store_has_no_queues(self, store: Store) -> None:
        """A queue without jobs is not listed."""
        assert await store.queues.list_queues() == []

    async def test_jobs_that_have_ended_are_not_in_a_queue(self, store: Store, worker: str) -> None:
        """Succeeded and cancelled jobs do not count in a queue."""
        lease, job = await run_job(store), new_job()
        await store.jobs.submit(job, NOW)
        await settle(store, lease, Succeeded("1"), NOW)
        await store.jobs.cancel(job.tenant, job.id, NOW)
        assert await store.queues.list_queues() == []

    async def test_a_queue_without_ready_jobs_has_no_oldest(
        self, store: Store, worker: str
    ) -> None:
        """`oldest_ready` is None if no job is ready."""
        lease = await run_job(store)
        await settle(store, lease, Errored(BOOM, retry_after_ms=1_000), NOW)
        [queue] = await store.queues.list_queues()
        assert (queue.ready, queue.delayed, queue.oldest_ready) == (0, 1, None)

    async def test_nothing_is_claimed_from_a_paused_queue(self, store: Store, worker: str) -> None:
        """Jobs of a paused queue stay queued; jobs of other queues are claimed."""
        slow, fast = new_job(queue="slow", priority=5), new_job(queue="fast")
        await store.jobs.submit_batch([slow, fast], NOW)
        await store.queues.pause_queue("slow", True, NOW)
        assert await claimed_ids(store) == [fast.id]
        await store.queues.pause_queue("slow", False, NOW)
        assert await claimed_ids(store) == [slow.id]

    async def test_what_runs_goes_on_when_its_queue_is_paused(
        self, store: Store, worker: str
    ) -> None:
        """Pausing a queue does not affect its running jobs."""
        lease = await run_job(store)
        await store.queues.pause_queue("default", True, NOW)
        assert await settle(store, lease, Succeeded("1"), NOW) is True
        assert (await job_of(store, lease)).state is State.SUCCEEDED

    async def test_a_paused_queue_still_takes_jobs_in(self, store: Store, worker: str) -> None:
        """A paused queue accepts and counts new jobs."""
        await store.queues.pause_queue("default", True, NOW)
        await store.jobs.submit(new_job(), NOW)
        [queue] = await store.queues.list_queues()
        assert (queue.paused, queue.ready) == (True, 1)
        assert await claim(store) == []

    async def test_a_paused_queue_is_listed_even_when_empty(self, store: Store) -> None:
        """A paused queue is listed until it is resumed, even if it is empty."""
        await store.queues.pause_queue("later", True, NOW)
        await store.queues.pause_queue("later", True, NOW + 1)
        assert await store.queues.list_queues() == [QueueStatus("later", True, 0, 0, 0, None)]
        await store.queues.pause_queue("later", False, NOW)
        assert await store.queues.list_queues() == []

    async def test_a_queue_that_was_never_paused_can_be_opened(
        self, store: Store, worker: str
    ) -> None:
        """Resuming a queue that is not paused is no error."""
        await store.queues.pause_queue("default", False, NOW)
        await store.jobs.submit(new_job(), NOW)
        assert len(await claim(store)) == 1

    async def test_a_delayed_job_of_a_paused_queue_stays(self, store: Store, worker: str) -> None:
        """A delayed job that becomes due in a paused queue is not claimed."""
        job = new_job(run_at=NOW + 10)
        await store.jobs.submit(job, NOW)
        await store.queues.pause_queue("default", True, NOW)
        assert await claim(store, now=NOW + 20) == []
        await store.queues.pause_queue("default", False, NOW)
        assert await claimed_ids(store, now=NOW + 20) == [job.id]
