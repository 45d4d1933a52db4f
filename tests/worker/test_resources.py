"""`ctx.acquire_one`: a resource that one running job holds, and no other job on any worker."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from coatcheck import App, Context
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.errors import InvalidInput
from coatcheck.model.job import Lease
from coatcheck.model.outcome import Released, Succeeded
from coatcheck.store.base import Settlement
from coatcheck.testing.inline import run_inline
from tests.http.arrange import worker_info

from .conftest import working
from .job_control import run

pytestmark = pytest.mark.anyio


async def claimed(engine: Engine, worker: str, count: int) -> list[Lease]:
    """Claim jobs for a worker that does nothing."""
    await engine.store.workers.register_worker(worker_info(worker))
    for _ in range(count):
        await engine.submit(Submission("sit"))
    found = await engine.claim(worker, ["sit"], count)
    assert len(found.claims) == count
    return [claim.lease for claim in found.claims]


@pytest.fixture
def app() -> App:
    app = App()

    @app.job
    async def sit(ctx: Context) -> None: ...

    return app


async def test_a_resource_is_held_by_one_job(engine: Engine) -> None:
    first, second, third = await claimed(engine, "one", 3)
    take = engine.resources.acquire_one
    assert await take(first, "seats", ["a", "b"]) == "a"
    assert await take(first, "seats", ["a", "b"]) == "a"  # which it has
    assert await take(second, "seats", ["a", "b"]) == "b"
    assert await take(third, "seats", ["a", "b"]) is None
    assert await take(third, "other", ["a"]) == "a"


async def test_one_of_many_jobs_acquires_a_resource(engine: Engine) -> None:
    leases = await claimed(engine, "one", 20)
    found = await asyncio.gather(
        *(engine.resources.acquire_one(lease, "s", ["a"]) for lease in leases)
    )
    assert sorted(map(str, found)) == [*["None"] * 19, "a"]


@pytest.mark.parametrize("how", ["ends", "is given back", "loses its worker", "is deleted"])
async def test_a_resource_is_released_when_its_job(engine: Engine, how: str) -> None:
    first, second = await claimed(engine, "one", 2)
    assert await engine.resources.acquire_one(first, "s", ["a"]) == "a"
    if how == "is given back":
        await engine.store.workers.settle([Settlement(first, Released())], engine.clock.now())
        [again] = (await engine.claim("one", ["sit"], 1)).claims
        assert again.lease.job_id == first.job_id  # it runs again, and has to take it anew
    elif how == "loses its worker":
        await engine.store.workers.remove_worker("one", None, engine.clock.now())
        await engine.store.workers.register_worker(worker_info("two"))
        second = (await engine.claim("two", ["sit"], 1)).claims[0].lease
    else:
        await engine.store.workers.settle([Settlement(first, Succeeded("1"))], engine.clock.now())
        if how == "is deleted":
            await engine.delete(first.job_id)
    assert await engine.resources.acquire_one(second, "s", ["a"]) == "a"


async def test_a_handler_acquires_a_resource(app: App, engine: Engine) -> None:
    @app.job
    async def choose(ctx: Context) -> list[str | None]:
        with pytest.raises(InvalidInput):
            await ctx.acquire_one("no name", ["a"])
        return [await ctx.acquire_one("s", ["a", "b"]), await ctx.acquire_one("s", [])]

    @app.job
    def choose_plainly(ctx: Context) -> str | None:
        found: str | None = ctx.acquire_one("s", ["a", "b"])
        return found

    async with working(engine):
        assert json.loads((await run(engine, "choose")).result or "") == ["a", None]
        assert json.loads((await run(engine, "choose_plainly")).result or "") == "a"
    assert run_inline(app, "choose_plainly").result == "a"


def test_place_is_a_deprecated_name_of_acquire_one() -> None:
    app = App()

    @app.job
    def choose(ctx: Context) -> str | None:
        with pytest.warns(DeprecationWarning, match="use ctx.acquire_one()"):
            found: str | None = ctx.place("s", ["a"])
        return found

    assert run_inline(app, "choose").result == "a"


async def test_two_hundred_jobs_acquire_resources_with_few_reads(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = await claimed(engine, "one", 200)
    names = [f"seat-{number}" for number in range(200)]
    looks = 0
    get_record = engine.store.records.get_record

    async def counted(*asked: Any) -> Any:
        nonlocal looks
        looks += 1
        return await get_record(*asked)

    monkeypatch.setattr(engine.store.records, "get_record", counted)
    found = await asyncio.gather(
        *(engine.resources.acquire_one(lease, "s", names) for lease in leases)
    )
    assert sorted(map(str, found)) == sorted(names)
    assert looks == 200
    assert await engine.settle([Settlement(leases[7], Succeeded("null"))]) == [True]
    [late] = await claimed(engine, "one", 1)
    assert await engine.resources.acquire_one(late, "s", names) == found[7]
    assert looks == 201
