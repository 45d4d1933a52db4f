"""A surface's own words for what the endpoints of its jobs are told."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coatcheck import App, Context
from coatcheck.egress.policy import EgressPolicy
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.engine.webhooks.endpoints import WebhookSpec
from coatcheck.model.job import DEFAULT_TENANT, Job
from coatcheck.model.options import SurfaceOptions
from coatcheck.model.webhook import DeliveryState, WebhookDelivery
from coatcheck.model.webhook_format import FormatContext, FormattedWebhook
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.store.webhooks import DeliveryFilter
from tests.webhooks.conftest import MovedClock
from tests.webhooks.receiver import receiving

pytestmark = pytest.mark.anyio


class Shouting:
    """Says the state in capitals; of a job of label quiet it says nothing."""

    surface = "shouts"
    schedule_s = (0, 2)

    async def word(
        self, job: Job, delivery: WebhookDelivery, told: FormatContext
    ) -> FormattedWebhook | None:
        if "quiet" in job.labels:
            return None
        before = [event.type for event in await told.events_before(delivery, 10)]
        said = {"is": delivery.type.upper(), "of": job.id, "before": before}
        return FormattedWebhook(json.dumps(said).encode(), {"x-shouted": "yes"})


@pytest.fixture
async def engine(clock: MovedClock) -> AsyncIterator[Engine]:
    app = App()

    @app.job(surface=SurfaceOptions(webhook_format=Shouting()))
    async def echo(ctx: Context, value: int) -> int:
        return value

    with tempfile.TemporaryDirectory(prefix="hooks-") as folder:
        store = SQLiteStore(Path(folder) / "jobs.db")
        await store.open()
        engine = Engine(store, app.kinds, clock, egress=EgressPolicy("127.0.0.1"))
        yield engine
        await engine.dispatcher.close()
        await store.close()


def shouted(url: str, **fields: object) -> Submission:
    asked = Submission("echo", "1", surface="shouts", webhook=WebhookSpec(url))
    return asked._replace(**fields)  # type: ignore[arg-type]  # fields of a submission


async def test_a_jobs_own_endpoint_is_told_in_the_words_of_its_surface(engine: Engine) -> None:
    async with receiving() as receiver:
        job = await engine.submit(shouted(receiver.url))
        await engine.cancel(job.id)
        await engine.dispatcher.deliver_due()
    [call] = receiver.calls
    assert json.loads(call.body) == {"is": "JOB.CANCELLED", "of": job.id, "before": ["state"]}
    assert call.headers["x-shouted"] == "yes"
    assert "webhook-signature" not in call.headers


async def test_others_are_told_as_ever(engine: Engine) -> None:
    """Neither a tenant's endpoint nor a job that came in by another door."""
    async with receiving() as tenants, receiving() as own:
        _, secret = await engine.webhooks.create(WebhookSpec(tenants.url))
        for surface in ("shouts", "api"):
            job = await engine.submit(shouted(own.url, surface=surface))
            await engine.cancel(job.id)
        await engine.dispatcher.deliver_due()
    assert [call.verified(secret)["type"] for call in tenants.calls] == ["job.cancelled"] * 2
    kinds = sorted("webhook-signature" in call.headers for call in own.calls)
    assert kinds == [False, True]


async def test_it_is_tried_as_often_as_the_surface_says(engine: Engine, clock: MovedClock) -> None:
    async with receiving(lambda _: 500) as receiver:
        job = await engine.submit(shouted(receiver.url))
        await engine.cancel(job.id)
        await engine.dispatcher.deliver_due()
        for _ in range(3):
            clock.ahead_ms += 3_000
            await engine.dispatcher.deliver_due()
    assert len(receiver.calls) == 2
    [delivery] = await engine.webhooks.deliveries(DeliveryFilter(DEFAULT_TENANT, job_id=job.id))
    assert delivery.state is DeliveryState.FAILED


async def test_what_is_nothing_new_is_not_sent(engine: Engine) -> None:
    async with receiving() as receiver:
        job = await engine.submit(shouted(receiver.url, labels={"quiet": "1"}))
        await engine.cancel(job.id)
        await engine.dispatcher.deliver_due()
    assert receiver.calls == []
    [delivery] = await engine.webhooks.deliveries(DeliveryFilter(DEFAULT_TENANT, job_id=job.id))
    assert delivery.state is DeliveryState.DELIVERED
