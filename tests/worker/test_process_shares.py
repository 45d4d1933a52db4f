"""Shares of the slots for processes: no tenant and no kind takes all of them, on either store."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import product

import pytest

from coatcheck import App
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.model.share import HeldSlots, Share
from coatcheck.model.state import State
from coatcheck.store.base import ClaimResult, Store
from coatcheck.testing.conformance.arrange import new_job
from coatcheck.worker.slots.pool import slots_and_share
from coatcheck.worker.worker import Worker
from tests.http.arrange import worker_info

from . import confined_app
from .both_stores import store  # noqa: F401 - the fixture
from .conftest import SETTINGS, working

pytestmark = pytest.mark.anyio

TWO = replace(SETTINGS, processes=2, drain_s=0)


@pytest.fixture
def app() -> App:
    return confined_app.app


@pytest.fixture
async def worker(engine: Engine) -> AsyncIterator[Worker]:
    async with working(engine, TWO) as worker:
        yield worker


async def submit(engine: Engine, kind: str, tenant: str, count: int) -> list[str]:
    input_ = json.dumps(3600 if kind == "hold" else None)
    submitted = Submission(kind, input_, tenant=tenant)
    return [(await engine.submit(submitted)).id for _ in range(count)]


async def running(engine: Engine, tenant: str, ids: list[str]) -> int:
    jobs = [await engine.get(each, tenant=tenant) for each in ids]
    return sum(job.state is State.RUNNING for job in jobs)


async def until_running(engine: Engine, tenant: str, ids: list[str], count: int) -> None:
    async with asyncio.timeout(60):
        while await running(engine, tenant, ids) < count:  # noqa: ASYNC110 - no signal
            await asyncio.sleep(0.02)


async def test_another_tenant_gets_a_slot_at_once(engine: Engine, worker: Worker) -> None:
    greedy = await submit(engine, "hold", "greedy", 10)
    await until_running(engine, "greedy", greedy, 2)
    [other] = await submit(engine, "brief", "other", 1)
    assert (await engine.wait(other, 60, tenant="other")).state is State.SUCCEEDED
    [same_kind] = await submit(engine, "hold", "third", 1)
    await until_running(engine, "third", [same_kind], 1)
    assert await running(engine, "greedy", greedy) == 2  # and never more


async def test_another_kind_gets_a_slot_at_once(engine: Engine, worker: Worker) -> None:
    held = await submit(engine, "hold", "default", 10)
    await until_running(engine, "default", held, 2)
    [other] = await submit(engine, "brief", "default", 1)
    assert (await engine.wait(other, 60)).state is State.SUCCEEDED
    assert await running(engine, "default", held) == 2


async def test_a_job_that_waits_for_its_share_starts_when_it_has_one(
    engine: Engine, worker: Worker
) -> None:
    ids = await submit(engine, "brief", "default", 9)
    for each in ids:
        assert (await engine.wait(each, 60)).state is State.SUCCEEDED


async def test_a_single_tenant_is_claimed_for_without_checking_shares(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claims under a share read lane by lane. There is one such claim whenever others may wait."""
    under_a_share, claim = [], engine.claim

    async def counted(
        worker_id: str, kinds: Sequence[str], limit: int, held: HeldSlots | None = None
    ) -> ClaimResult:
        claimed = await claim(worker_id, kinds, limit, held)
        if held is not None:
            under_a_share.append(len(claimed.claims))
        return claimed

    monkeypatch.setattr(engine, "claim", counted)
    ids = await submit(engine, "brief", "default", 40)
    async with working(engine, TWO):
        for each in ids:
            assert (await engine.wait(each, 60)).state is State.SUCCEEDED
    assert sum(under_a_share) == 0
    assert len(under_a_share) < 10


async def test_a_claim_passes_over_jobs_beyond_their_share(store: Store) -> None:  # noqa: F811
    await store.workers.register_worker(worker_info("w"))
    for kind, tenant in product(("x", "y"), ("a", "b", "default")):
        for _ in range(5):
            await store.jobs.submit(new_job(kind, tenant=tenant), 0)
    share = Share(per_pair=2, per_tenant=3, per_kind=5)
    held = HeldSlots(share, (("x", "a"), ("x", "a"), ("y", "a")))
    claimed = await store.workers.claim("w", ["x", "y"], 20, 2**50, held=held)
    found = Counter((claim.kind, claim.lease.tenant) for claim in claimed.claims)
    assert all(tenant != "a" for _, tenant in found)
    assert max(found.values()) <= 2
    assert sum(count for (kind, _), count in found.items() if kind == "x") == 3
    assert sum(found.values()) == 6


@pytest.mark.parametrize(("most", "kinds"), list(product((1, 2, 4), (1, 2, 5))))
def test_another_tenant_always_finds_a_slot(most: int, kinds: int) -> None:
    slots, share = slots_and_share(most, kinds, exact=False)
    assert share is not None
    assert share.per_tenant < slots
    assert share.per_pair < slots
    assert share.per_kind < slots or kinds == 1
    assert slots_and_share(1, kinds, exact=True) == (1, None)
