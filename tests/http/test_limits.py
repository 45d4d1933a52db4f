"""Limits as those see them who submit: keys, refusals, and what `?explain=1` says of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from coatcheck import App, Context
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.errors import InvalidPayload
from coatcheck.model.job import Job
from coatcheck.model.outcome import Released
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import Settlement
from coatcheck.store.sqlite.store import SQLiteStore
from tests.http.arrange import NOW, StoppedClock

pytestmark = pytest.mark.anyio

app = App()


@app.job(concurrency=1)
async def one(ctx: Context) -> None: ...


@app.job(concurrency_key=lambda order: order["customer"])
async def each(ctx: Context, order: dict[str, Any]) -> None: ...


@app.job(rate="10/m")
async def slow(ctx: Context) -> None: ...


@app.job(version="2")
async def pinned(ctx: Context) -> None: ...


@app.job
async def free(ctx: Context) -> None: ...


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    store = SQLiteStore(tmp_path / "jobs.db")
    await store.open()
    engine = Engine(store, app.kinds, StoppedClock())
    kinds = engine.names_of(app.kinds)
    await store.workers.register_worker(WorkerInfo("w-1", "here", 4711, kinds, 99, NOW))
    yield engine
    await store.close()


async def submit(engine: Engine, kind: str, text: str = "null", **fields: Any) -> Job:
    return await engine.submit(Submission(kind, text, **fields))


async def why(engine: Engine, job: Job) -> dict[str, str]:
    return dict(await engine.explain(await engine.get(job.id)))


async def test_the_limit_of_a_kind(engine: Engine) -> None:
    first, second = await submit(engine, "one"), await submit(engine, "one")
    assert [c.lease.job_id for c in (await engine.claim("w-1", ["one"], 9)).claims] == [first.id]
    assert await why(engine, second) == {"kind-limit": "1 of 1 job(s) of kind 'one' are running"}


async def test_the_limit_of_a_key(engine: Engine) -> None:
    ada, ida = '{"customer":"ada"}', '{"customer":7}'
    jobs = [await submit(engine, "each", text) for text in (ada, ada, ida)]
    assert [job.limit_key for job in jobs] == ["ada", "ada", "7"]
    assert len((await engine.claim("w-1", ["each"], 9)).claims) == 2
    assert await why(engine, jobs[1]) == {
        "key-limit": "1 of 1 job(s) of kind 'each' with its key 'ada' are running"
    }


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("{}", "raised KeyError"),
        ('{"customer":["a"]}', "no text but a list"),
        ('{"customer":""}', "1 to 255"),
        ('{"customer":"a\\nb"}', "1 to 255"),
    ],
)
async def test_an_input_without_a_key_is_refused(engine: Engine, order: str, said: str) -> None:
    with pytest.raises(InvalidPayload, match=said) as refused:
        await submit(engine, "each", order)
    assert [place for place, _ in refused.value.problems] == ["/input"]


async def test_no_key_is_no_limit(engine: Engine) -> None:
    assert (await submit(engine, "each", '{"customer":null}')).limit_key is None


async def test_a_rate(engine: Engine) -> None:
    await submit(engine, "slow")
    second = await submit(engine, "slow")
    claimed = await engine.claim("w-1", ["slow"], 9)
    assert (len(claimed.claims), claimed.next_due) == (1, NOW + 5_900)
    said = {"rate-limit": "the rate of kind 'slow' is 10/m; the next start in 5.9 s"}
    assert await why(engine, second) == said


async def test_the_limit_of_a_queue(engine: Engine) -> None:
    jobs = [await submit(engine, "free", queue="gpu") for _ in range(2)]
    await engine.limit_queue("gpu", 1)
    await engine.claim("w-1", ["free"], 9)
    assert await why(engine, jobs[1]) == {"queue-limit": "1 of 1 job(s) of queue 'gpu' are running"}


async def test_a_version_that_nobody_has(engine: Engine) -> None:
    job = await submit(engine, "pinned")
    [claim] = (await engine.claim("w-1", ["pinned"], 1)).claims
    await engine.settle([Settlement(claim.lease, Released())])
    assert set(await why(engine, job)) == {"due"}
    other = WorkerInfo("w-2", "here", 4712, ("pinned", "pinned@3"), 99, NOW)
    await engine.store.workers.register_worker(other)
    await engine.store.workers.remove_worker("w-1", None, NOW)
    [(code, said)] = (await why(engine, job)).items()
    assert code == "no-version"
    assert "version '2' of kind 'pinned'" in said
