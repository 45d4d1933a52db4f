"""Jobs that this process has run before they are written: let in like any other, and counted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from coatcheck import App, Context
from coatcheck.blobs.blobs import Blobs
from coatcheck.blobs.files import FileBucket
from coatcheck.engine.auth import Admission
from coatcheck.engine.engine import Engine
from coatcheck.engine.maintenance.throughput import FinishedCount as EndedInMinute
from coatcheck.engine.submit.submission import Submission, prepare
from coatcheck.errors import Conflict, NotFound, QuotaExceeded, TenantSuspended
from coatcheck.model.access import Quotas
from coatcheck.model.job import Failure, JobInsert, Lease
from coatcheck.model.outcome import GaveUp, Outcome, Succeeded
from coatcheck.model.payload import INLINE_BYTES
from coatcheck.model.state import State
from coatcheck.model.step import Op, Step, StepId, StepState
from coatcheck.store.base import FinishedJob, JobFilter, Report
from coatcheck.store.sqlite.store import SQLiteStore

from .hand_clock import HandClock

pytestmark = pytest.mark.anyio

START = 2_000_000_000_000 // 60_000 * 60_000
LARGE = '"' + "x" * INLINE_BYTES + '"'


class Door:
    """Lets a submit in again, and says how often it was asked."""

    def __init__(self, engine: Engine, quotas: Quotas | None = None) -> None:
        self._engine = engine
        self.quotas = quotas
        self.asked = 0
        self.closed = False

    async def renew(self) -> Admission:
        self.asked += 1
        if self.closed:
            raise TenantSuspended("the tenant is suspended")
        return await self.admission()

    async def admission(self) -> Admission:
        return Admission(
            (await self._engine.store.access.get_state()).epoch, self.quotas, self.renew
        )


def declare() -> App:
    app = App()

    @app.job(queue="pictures")
    async def draw(ctx: Context, text: str) -> str:
        return text

    return app


@pytest.fixture
def clock() -> HandClock:
    return HandClock(START)


@pytest.fixture
async def engine(tmp_path: Path, clock: HandClock) -> AsyncIterator[Engine]:
    store = SQLiteStore(tmp_path / "jobs.db", poll_s=60)
    await store.open()
    blobs = Blobs(FileBucket(tmp_path / "blobs"))
    yield Engine(store, declare().kinds, clock, blobs=blobs)
    await store.close()


def drawn(engine: Engine, **fields: Any) -> JobInsert:
    submission = Submission("draw", '"a map"', **fields)
    return prepare(submission, engine.kinds, engine.new_id(), engine.clock.now())


def ended(engine: Engine, result: str = "1", report: Report | None = None) -> FinishedJob:
    return FinishedJob(engine.clock.now(), Succeeded(result), report)


async def written(engine: Engine) -> list[str]:
    return [job.id for job in reversed(await engine.list_jobs(JobFilter("default")))]


async def test_a_job_is_there_as_it_ended(engine: Engine, clock: HandClock) -> None:
    job = drawn(engine)
    clock.milliseconds += 3
    how = ended(engine, '"a picture"')
    clock.milliseconds += 15

    await engine.submit_finished(job, how)

    found = await engine.wait(job.id, 0)
    assert (found.state, found.result, found.attempt) == (State.SUCCEEDED, '"a picture"', 1)
    times = (found.created_at, found.started_at, found.finished_at)
    assert times == (START, START + 3, START + 18)


@pytest.mark.parametrize(
    ("outcome", "state"),
    [(Succeeded("1"), "succeeded"), (GaveUp(Failure("boom", "it broke")), "failed")],
)
async def test_it_is_counted_like_one_that_a_worker_ran(
    engine: Engine, clock: HandClock, outcome: Outcome, state: str
) -> None:
    assert isinstance(outcome, Succeeded | GaveUp)
    job = drawn(engine)
    clock.milliseconds += 3
    began = clock.now()
    clock.milliseconds += 15
    await engine.submit_finished(job, FinishedJob(began, outcome))
    await engine.metrics.flush()

    kind = 'kind="draw"'
    counts = await engine.store.maintenance.read_counters()
    assert {name: counts[name] for name in counts if not name.startswith("job_")} == {
        f"jobs_submitted{{{kind}}}": 1,
        f"jobs_started{{{kind}}}": 1,
        f'jobs_finished{{{kind},state="{state}"}}': 1,
    }
    assert (counts[f"job_wait_ms{{{kind}}}"], counts[f"job_run_ms{{{kind}}}"]) == (3, 15)
    numbers = {"succeeded": 0, "failed": 0, "cancelled": 0} | {state: 1}
    hour = await engine.metrics.throughput.last_hour()
    assert hour == [EndedInMinute(START, "pictures", "draw", **numbers)]
    assert engine.metrics.store_latency.count == 1


async def test_it_takes_from_the_quotas(engine: Engine) -> None:
    door = Door(engine, Quotas(submits_per_minute=2))
    jobs = [drawn(engine) for _ in range(3)]
    for job in jobs[:2]:
        await engine.submit_finished(job, ended(engine), await door.admission())
    with pytest.raises(QuotaExceeded):
        await engine.submit_finished(jobs[2], ended(engine), await door.admission())
    assert await written(engine) == [job.id for job in jobs[:2]]
    await engine.metrics.flush()
    assert (await engine.store.maintenance.read_counters())['jobs_submitted{kind="draw"}'] == 2


async def test_what_was_not_written_is_given_back(engine: Engine) -> None:
    door = Door(engine, Quotas(submits_per_minute=2))
    first = drawn(engine, public_id="p_1")
    await engine.submit_finished(first, ended(engine), await door.admission())
    for _ in range(5):
        with pytest.raises(Conflict):
            taken = drawn(engine, public_id="p_1")
            await engine.submit_finished(taken, ended(engine), await door.admission())
    second = drawn(engine)
    await engine.submit_finished(second, ended(engine), await door.admission())
    assert await written(engine) == [first.id, second.id]


async def test_where_the_epoch_has_moved_it_is_let_in_again(engine: Engine) -> None:
    door = Door(engine, Quotas(submits_per_minute=1))
    old = await door.admission()
    await engine.authenticator.put_tenant("acme")
    job = drawn(engine)
    await engine.submit_finished(job, ended(engine), old)
    assert door.asked == 1, "and its place in the quota is taken once"
    assert await written(engine) == [job.id]


async def test_who_is_not_let_in_again_has_written_nothing(engine: Engine) -> None:
    door = Door(engine, Quotas(submits_per_minute=1))
    old = await door.admission()
    await engine.authenticator.put_tenant("acme")
    door.closed = True
    job = drawn(engine)
    with pytest.raises(TenantSuspended):
        await engine.submit_finished(job, ended(engine), old)
    with pytest.raises(NotFound):
        await engine.get(job.id)
    door.closed = False
    await engine.submit_finished(job, ended(engine), await door.admission())


async def test_what_is_kept_apart_does_not_go_this_way(engine: Engine) -> None:
    job = drawn(engine)
    step = Step(0, StepId(Op.STEP, "s", None, 0), StepState.SUCCEEDED, START, result=LARGE)
    for new, how in (
        (job._replace(input=LARGE), ended(engine)),
        (job, ended(engine, LARGE)),
        (job, ended(engine, report=Report(steps=(step,)))),
    ):
        with pytest.raises(ValueError, match="payload for the blob store"):
            await engine.submit_finished(new, how)
    assert await written(engine) == []


async def test_without_a_place_for_blobs_nothing_is_kept_apart(engine: Engine) -> None:
    plain = Engine(engine.store, engine.kinds, engine.clock)
    job = drawn(plain)
    await plain.submit_finished(job._replace(input=LARGE), ended(plain, LARGE))
    assert (await plain.get(job.id)).result == LARGE


async def test_its_place_is_forgotten(engine: Engine) -> None:
    job = drawn(engine)
    assert await engine.resources.acquire_one(Lease(job.tenant, job.id, 1), "seats", ["a"]) == "a"
    await engine.submit_finished(job, ended(engine))
    assert not engine.resources.in_use
