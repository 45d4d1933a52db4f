"""Webhooks as a receiver sees them: signed, tried again by the schedule, each on its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest
from standardwebhooks import WebhookVerificationError

from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.engine.webhooks.endpoints import WebhookSpec
from coatcheck.model.job import DEFAULT_TENANT, Job
from coatcheck.model.webhook import SCHEDULE_S, DeliveryState, WebhookDelivery
from coatcheck.store.webhooks import DeliveryFilter
from tests.webhooks.conftest import MovedClock, StoppedClock, delivering
from tests.webhooks.receiver import receiving

pytestmark = pytest.mark.anyio

LONG = 30.0


async def cancelled(engine: Engine, webhook: WebhookSpec | None = None, **fields: Any) -> Job:
    """Have a job end, in the simplest way."""
    job = await engine.submit(Submission("echo", "1", webhook=webhook, **fields))
    return await engine.cancel(job.id)


async def deliveries(engine: Engine, job: Job) -> list[WebhookDelivery]:
    return await engine.webhooks.deliveries(DeliveryFilter(DEFAULT_TENANT, job_id=job.id))


async def test_a_receiver_is_told_and_can_verify_it(engine: Engine) -> None:
    async with receiving() as receiver:
        endpoint, secret = await engine.webhooks.create(WebhookSpec(receiver.url))
        job = await cancelled(engine, traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01")
        await engine.dispatcher.deliver_due()
    [call] = receiver.calls
    message = call.verified(secret)
    assert message["type"] == "job.cancelled"
    assert message["data"] == {
        "id": job.id,
        "kind": "echo",
        "state": "cancelled",
        "attempt": 0,
        "previous": "queued",
        "reason": "cancelled",
        "links": {"self": f"/v1/jobs/{job.id}"},
    }
    assert call.id == f"msg_{job.id}_2"
    assert call.headers["traceparent"].startswith("00-aaaa")
    assert call.headers["content-type"] == "application/json"
    [delivery] = await deliveries(engine, job)
    assert (delivery.state, delivery.key.endpoint) == (DeliveryState.DELIVERED, endpoint.id)
    assert [(each.status, each.error) for each in delivery.log] == [(204, None)]


async def test_a_jobs_own_webhook_is_signed_with_the_tenants_secret(engine: Engine) -> None:
    async with receiving() as receiver:
        await cancelled(engine, WebhookSpec(receiver.url))
        await cancelled(engine, WebhookSpec(receiver.url, ["job.succeeded"]))
        await engine.dispatcher.deliver_due()
    [call] = receiver.calls
    secret = await engine.webhooks.secret()
    assert call.verified(secret)["type"] == "job.cancelled"
    assert secret.startswith("whsec_")


async def test_after_a_rotation_both_secrets_verify_for_a_day(
    engine: Engine, clock: MovedClock
) -> None:
    async with receiving() as receiver:
        endpoint, old = await engine.webhooks.create(WebhookSpec(receiver.url))
        new, until = await engine.webhooks.rotate(endpoint.id)
        await cancelled(engine)
        await engine.dispatcher.deliver_due()
        assert until - clock.now() <= 86_400_000
        clock.ahead_ms += 86_400_001
        await cancelled(engine)
        await engine.dispatcher.deliver_due()
    first, second = receiver.calls
    assert first.verified(new) == first.verified(old)
    assert len(first.headers["webhook-signature"].split()) == 2
    assert len(second.headers["webhook-signature"].split()) == 1


class TestTheSchedule:
    """With a clock that moves only as a test says, so that a moment too early is one."""

    @pytest.fixture
    def clock(self) -> MovedClock:
        return StoppedClock()

    async def test_a_failure_is_tried_again_by_the_schedule_then_given_up(
        self, engine: Engine, clock: MovedClock
    ) -> None:
        async with receiving(lambda _: 500) as receiver:
            await engine.webhooks.create(WebhookSpec(receiver.url))
            job = await cancelled(engine)
            await engine.dispatcher.deliver_due()
            for number, wait_s in enumerate(SCHEDULE_S[1:], 1):
                assert len(receiver.calls) == number
                [delivery] = await deliveries(engine, job)
                assert delivery.due_at is not None
                wait_ms = delivery.due_at - clock.now()
                assert wait_s * 1000 <= wait_ms <= wait_s * 1200
                clock.ahead_ms += wait_ms - 1
                await engine.dispatcher.deliver_due()
                assert len(receiver.calls) == number, "too early"
                clock.ahead_ms += 1
                await engine.dispatcher.deliver_due()
            clock.ahead_ms += 10 * 86_400_000
            await engine.dispatcher.deliver_due()
        assert len(receiver.calls) == len(SCHEDULE_S) == 7
        assert len({call.id for call in receiver.calls}) == 1
        assert len({call.body for call in receiver.calls}) == 1
        [delivery] = await deliveries(engine, job)
        assert (delivery.state, delivery.due_at) == (DeliveryState.FAILED, None)
        assert {each.status for each in delivery.log} == {500}
        assert (await engine.get(job.id)).state == "cancelled"


async def test_redirects_are_failures(engine: Engine) -> None:
    async with receiving(lambda _: 302) as receiver:
        await engine.webhooks.create(WebhookSpec(receiver.url))
        job = await cancelled(engine)
        await engine.dispatcher.deliver_due()
    [delivery] = await deliveries(engine, job)
    assert delivery.state is DeliveryState.PENDING
    assert delivery.log[0].error == "answered 302: a redirect, which is not followed"


async def test_gone_disables_an_endpoint_until_it_is_enabled(engine: Engine) -> None:
    answers = [410, 204]
    async with receiving(lambda _: answers.pop(0)) as receiver:
        endpoint, _ = await engine.webhooks.create(WebhookSpec(receiver.url))
        job = await cancelled(engine)
        await engine.dispatcher.deliver_due()
        disabled = await engine.webhooks.get(endpoint.id)
        assert disabled.disabled_why == "it answered 410: gone"
        await cancelled(engine)
        await engine.dispatcher.deliver_due()
        assert len(receiver.calls) == 1
        await engine.webhooks.enable(endpoint.id)
        [delivery] = await deliveries(engine, job)
        assert delivery.state is DeliveryState.FAILED
        assert await engine.webhooks.redeliver_failed(endpoint.id) == 1
        await engine.dispatcher.deliver_due()
    assert [call.id for call in receiver.calls] == [f"msg_{job.id}_2"] * 2
    assert (await engine.webhooks.get(endpoint.id)).failing_since is None


async def test_an_endpoint_that_takes_nothing_for_days_is_disabled(
    engine: Engine, clock: MovedClock
) -> None:
    async with receiving(lambda _: 503) as receiver:
        endpoint, _ = await engine.webhooks.create(WebhookSpec(receiver.url))
        await cancelled(engine)
        await engine.dispatcher.deliver_due()
        assert (await engine.webhooks.get(endpoint.id)).failing_since is not None
        clock.ahead_ms += 3 * 86_400_000
        await engine.dispatcher.deliver_due()
    disabled = await engine.webhooks.get(endpoint.id)
    assert disabled.disabled_why == "it has taken nothing for three days"


async def test_one_success_and_it_counts_from_the_beginning(
    engine: Engine, clock: MovedClock
) -> None:
    answers = [500, 200, 200]
    async with receiving(lambda _: answers.pop(0)) as receiver:
        endpoint, _ = await engine.webhooks.create(WebhookSpec(receiver.url))
        await cancelled(engine)
        await engine.dispatcher.deliver_due()
        clock.ahead_ms += 7_000
        await engine.dispatcher.deliver_due()
    assert (await engine.webhooks.get(endpoint.id)).failing_since is None


async def test_what_is_pending_for_a_deleted_or_disabled_endpoint_is_called_off(
    engine: Engine,
) -> None:
    async with receiving() as receiver:
        gone, _ = await engine.webhooks.create(WebhookSpec(receiver.url))
        off, _ = await engine.webhooks.create(WebhookSpec(receiver.url))
        job = await cancelled(engine)
        await engine.webhooks.delete(gone.id)
        await engine.webhooks.disable(off.id)
        await engine.dispatcher.deliver_due()
    assert receiver.calls == []
    found = {each.key.endpoint: each for each in await deliveries(engine, job)}
    assert found[gone.id].log[0].error == "the webhook is deleted"
    assert found[off.id].log[0].error == "the webhook is disabled"


async def test_what_is_called_off_goes_many_at_a_time(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is called, so nobody can be silent: it need not wait for an answer."""
    claim, claims = engine.store.webhooks.claim_deliveries, []

    async def counted_claim(*args: Any) -> Any:
        claims.append(await claim(*args))
        return claims[-1]

    monkeypatch.setattr(engine.store.webhooks, "claim_deliveries", counted_claim)
    async with receiving() as receiver:
        endpoint, _ = await engine.webhooks.create(WebhookSpec(receiver.url))
        for _ in range(60):
            await cancelled(engine)
        await engine.webhooks.delete(endpoint.id)
        await engine.dispatcher.deliver_due()
    assert [len(each) for each in claims] == [1, 32, 27]


async def test_a_name_that_turns_inwards_is_not_called(engine: Engine) -> None:
    inward = Engine(engine.store, engine.kinds, engine.clock)  # opens no doors
    async with receiving() as receiver:
        await engine.webhooks.create(WebhookSpec(receiver.url))
        job = await cancelled(engine)
        await inward.dispatcher.deliver_due()
    assert receiver.calls == []
    [delivery] = await deliveries(engine, job)
    assert "it is not public" in str(delivery.log[0].error)
    assert delivery.state is DeliveryState.PENDING


async def test_several_senders_send_each_message_once(engine: Engine) -> None:
    senders = [
        Engine(engine.store, engine.kinds, engine.clock, egress=engine.egress) for _ in "123"
    ]
    async with receiving() as receiver:
        await engine.webhooks.create(WebhookSpec(receiver.url))
        jobs = [await cancelled(engine) for _ in range(100)]
        await asyncio.gather(*(sender.dispatcher.deliver_due() for sender in senders))
        for sender in senders:
            await sender.dispatcher.close()
    assert sorted(call.id for call in receiver.calls) == sorted(f"msg_{job.id}_2" for job in jobs)


async def test_one_that_runs_is_woken_by_what_becomes_of_jobs(engine: Engine) -> None:
    async with receiving() as receiver, delivering(engine):
        await engine.webhooks.create(WebhookSpec(receiver.url))
        for _ in range(3):
            receiver.called.clear()
            await cancelled(engine)
            async with asyncio.timeout(LONG):
                await receiver.called.wait()


async def test_everything_due_is_delivered_beside_one_that_runs(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked for while a call is noted may be due only after the answer was read."""
    monkeypatch.setattr("coatcheck.engine.webhooks.dispatcher.SCHEDULE_S", (0,) * 5)
    claim, note = engine.store.webhooks.claim_deliveries, engine.store.webhooks.record_deliveries
    noted = asyncio.Event()

    async def late_claim(*args: Any, **fields: Any) -> Any:
        found = await claim(*args, **fields)
        noted.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05 if engine.dispatcher._unwritten else 0):
                await noted.wait()
        return found

    async def counted_note(*args: Any) -> Any:
        written = await note(*args)
        noted.set()
        return written

    monkeypatch.setattr(engine.store.webhooks, "claim_deliveries", late_claim)
    monkeypatch.setattr(engine.store.webhooks, "record_deliveries", counted_note)
    async with receiving(lambda _: 500) as receiver, delivering(engine):
        await engine.webhooks.create(WebhookSpec(receiver.url))
        for number in range(1, 11):
            receiver.called.clear()
            await cancelled(engine)
            async with asyncio.timeout(LONG):
                await receiver.called.wait()
                await engine.dispatcher.deliver_due()
            assert len(receiver.calls) == 5 * number


async def test_a_message_is_not_verified_with_another_secret(engine: Engine) -> None:
    async with receiving() as receiver:
        _, secret = await engine.webhooks.create(WebhookSpec(receiver.url))
        await cancelled(engine)
        await engine.dispatcher.deliver_due()
    [call] = receiver.calls
    assert call.verified(secret)
    with pytest.raises(WebhookVerificationError):
        call.verified(await engine.webhooks.secret())


@pytest.mark.parametrize("what", ["body", "webhook-id", "webhook-timestamp"])
async def test_a_message_that_was_changed_is_not_verified(engine: Engine, what: str) -> None:
    async with receiving() as receiver:
        _, secret = await engine.webhooks.create(WebhookSpec(receiver.url))
        await cancelled(engine)
        await engine.dispatcher.deliver_due()
    [call] = receiver.calls
    assert call.verified(secret)
    if what == "body":
        changed = call._replace(body=call.body.replace(b"cancelled", b"succeeded"))
    else:  # by its last digit: a timestamp has to stay near the real time
        value = call.headers[what]
        other = value[:-1] + ("1" if value[-1] != "1" else "2")
        changed = call._replace(headers={**call.headers, what: other})
    assert changed != call
    with pytest.raises(WebhookVerificationError):
        changed.verified(secret)


async def test_nothing_secret_is_logged(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with receiving(lambda _: 500) as receiver:
        _, secret = await engine.webhooks.create(WebhookSpec(f"{receiver.url}?token=hidden"))
        await cancelled(engine)
        await engine.dispatcher.deliver_due()
    written = json.dumps(
        [str(vars(record)) for record in caplog.records if "coatcheck" in record.name]
    )
    assert "webhook not delivered" in written
    assert secret not in written and "hidden" not in written
