"""Webhooks are delivered at least once, under one id (P7), even if their dispatcher is killed."""

from __future__ import annotations

import asyncio
import json

import pytest

from coatcheck.egress.policy import EgressPolicy
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.engine.webhooks.dispatcher import LEASE_MS
from coatcheck.engine.webhooks.endpoints import WebhookSpec
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.webhook import DeliveryState
from coatcheck.store.webhooks import DeliveryFilter
from coatcheck.testing.checker import RunRecord, Submit, check, read_records
from tests.store.another_process import AnotherProcess
from tests.webhooks.receiver import receiving

from .place import Place
from .schedule_kills import ToldClock
from .webhook_kills import POINTS, app
from .webhook_receiver import delivery_of

pytestmark = pytest.mark.anyio

START = 2_000_000_000_000
# How often the receiver hears of it: by the one that is killed, and by the one after it.
CALLS = {"before": (0, 1), "after": (1, 2), "noted": (1, 1)}


@pytest.mark.parametrize("point", POINTS)
async def test_a_killed_dispatcher_loses_no_delivery(place: Place, point: str) -> None:
    store = place.store()
    await store.open()
    engine = Engine(store, app.kinds, ToldClock(START), egress=EgressPolicy("127.0.0.1"))
    by_victim, by_both = CALLS[point]
    async with receiving() as receiver:
        submitted = WebhookSpec(receiver.url)
        job = await engine.submit(Submission("nothing", webhook=submitted))
        await engine.cancel(job.id)
        with AnotherProcess(
            json.dumps(place.settings()), module="tests.faults.webhook_kills"
        ) as victim:
            assert await asyncio.to_thread(victim.says) == "ready"
            victim.tell(f"{START + 1} {point}")
            assert await asyncio.to_thread(victim.says) == "", "it is dead"
        assert len(receiver.calls) == by_victim
        with AnotherProcess(
            json.dumps(place.settings()), module="tests.faults.webhook_kills"
        ) as other:
            assert await asyncio.to_thread(other.says) == "ready"
            for now in (START + 2, START + 1 + LEASE_MS):
                other.tell(str(now))
                assert await asyncio.to_thread(other.says) == "delivered"
    assert [call.id for call in receiver.calls] == [f"msg_{job.id}_2"] * by_both
    which = DeliveryFilter(DEFAULT_TENANT, job_id=job.id)
    [delivery] = await engine.webhooks.deliveries(which)
    assert delivery.state is DeliveryState.DELIVERED
    submits = [Submit(job.id)]
    check(
        RunRecord(
            submits,
            await read_records(store, submits),
            deliveries=[delivery_of(call) for call in receiver.calls],
            owed_deliveries=[(job.id, "job.cancelled")],
        )
    )
    await store.close()
