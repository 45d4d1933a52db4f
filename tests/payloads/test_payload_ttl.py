"""`payload_ttl` of any kind: an input is kept no longer, whatever is done with its job."""

from __future__ import annotations

import pytest

from coatcheck import App, Context
from coatcheck.blobs.blobs import Blobs
from coatcheck.engine.engine import Engine
from coatcheck.engine.fork import Fork
from coatcheck.engine.maintenance.sweep import Sweeper
from coatcheck.engine.submit.submission import Submission
from coatcheck.errors import InputGone
from coatcheck.model.job import DEFAULT_TENANT, Failure
from coatcheck.model.outcome import GaveUp
from coatcheck.store.base import Settlement
from coatcheck.store.sqlite.store import SQLiteStore
from tests.http.arrange import NOW, StoppedClock, worker_info

pytestmark = pytest.mark.anyio

MINUTE = 60_000
TTL = 60 * MINUTE
INPUT = f'"{"x" * 100_000}"'  # large enough for a blob


def declare() -> App:
    app = App()

    @app.job(payload_ttl="1h", retries=0)
    async def inspect(ctx: Context, source: str) -> int:
        return len(source)

    return app


class Time:
    """An engine, and a clock that is set by the minute; whatever passes is swept."""

    def __init__(self, store: SQLiteStore, blobs: Blobs) -> None:
        self._clock = StoppedClock()
        self.engine = Engine(store, declare().kinds, self._clock, blobs=blobs)
        self._sweeper = Sweeper(
            store, self._clock, lease_s=30, sweep_s=5, payload_store=self.engine.payload_store
        )

    async def at(self, minute: int) -> None:
        self._clock.milliseconds = NOW + minute * MINUTE
        await self._sweeper.sweep()

    async def fail(self, job_id: str) -> None:
        """Claim a job, and let it fail."""
        await self.engine.store.workers.register_worker(worker_info("w"))
        [claim] = (await self.engine.claim("w", ["inspect"], 5)).claims
        assert claim.lease.job_id == job_id
        ended = Settlement(claim.lease, GaveUp(Failure("sour", "no", retryable=False)))
        assert await self.engine.store.workers.settle([ended], self._clock.now()) == [True]

    async def has_input(self, job_id: str) -> bool:
        try:
            text = await self.engine.store.jobs.get_input(DEFAULT_TENANT, job_id)
        except InputGone:
            return False
        return await self.engine.payload_store.read(text) == INPUT

    async def blobs_left(self) -> int:
        return len(await self.engine.store.rekey.list_blobs(None, 100))


@pytest.fixture
def time(store: SQLiteStore, blobs: Blobs) -> Time:
    return Time(store, blobs)


async def test_it_counts_from_the_submit_also_for_a_job_that_is_to_run_later(time: Time) -> None:
    late = await time.engine.submit(Submission("inspect", INPUT, run_at=NOW + 2 * TTL))
    soon = await time.engine.submit(Submission("inspect", INPUT, run_at=NOW + 30 * MINUTE))
    await time.at(31)
    assert await time.has_input(late.id)
    await time.fail(soon.id)  # it can be claimed by now, with its input
    await time.at(59)
    assert (await time.engine.get(late.id)).state == "queued"
    assert await time.has_input(soon.id)
    await time.at(60)
    ended = await time.engine.get(late.id)
    assert (ended.state, ended.reason) == ("failed", "expired")
    assert not await time.has_input(late.id)
    assert not await time.has_input(soon.id)
    assert await time.blobs_left() == 0


async def test_a_resumed_job_has_what_is_left(time: Time) -> None:
    job = await time.engine.submit(Submission("inspect", INPUT, deadline_s=20 * 60))
    await time.fail(job.id)
    await time.at(50)
    resumed = await time.engine.resume(job.id)
    assert (resumed.job.state, resumed.job.terms.deadline_at) == ("queued", NOW + TTL)
    await time.at(60)
    assert (await time.engine.get(job.id)).reason == "expired"
    assert not await time.has_input(job.id)
    assert await time.blobs_left() == 0
    with pytest.raises(InputGone):
        await time.engine.resume(job.id)


async def test_forks_with_the_same_input_have_what_is_left(time: Time) -> None:
    job = await time.engine.submit(Submission("inspect", INPUT, deadline_s=20 * 60))
    await time.fail(job.id)
    await time.at(40)
    fork = (await time.engine.fork(Fork(job.id, 0))).job
    again = (await time.engine.fork(Fork(fork.id, 0))).job
    assert {each.terms.deadline_at for each in (fork, again)} == {NOW + TTL}
    await time.at(59)
    assert await time.has_input(again.id)
    await time.at(60)
    for each in (job, fork, again):
        assert not await time.has_input(each.id)
        with pytest.raises(InputGone):
            await time.engine.fork(Fork(each.id, 0))
    assert await time.blobs_left() == 0


async def test_a_fork_of_what_is_not_swept_yet_is_refused(time: Time) -> None:
    job = await time.engine.submit(Submission("inspect", INPUT))
    await time.fail(job.id)
    time._clock.milliseconds = NOW + TTL
    with pytest.raises(InputGone):
        await time.engine.fork(Fork(job.id, 0))


async def test_a_fork_with_another_input_has_a_time_of_its_own(time: Time) -> None:
    job = await time.engine.submit(Submission("inspect", INPUT))
    await time.fail(job.id)
    await time.at(40)
    fork = (await time.engine.fork(Fork(job.id, 0, input='"other"'))).job
    assert fork.terms.deadline_at == NOW + 40 * MINUTE + TTL
    await time.at(61)
    assert await time.engine.store.jobs.get_input(DEFAULT_TENANT, fork.id) == '"other"'
