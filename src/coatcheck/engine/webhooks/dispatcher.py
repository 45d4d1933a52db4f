"""The webhook dispatcher: sends due deliveries from the outbox.

Every API and worker process runs a dispatcher of its own. `coatcheck.store.webhooks` explains why a
message is never lost and may arrive twice.

Deliveries wait in *lanes*, and a slow receiver delays only its own lane.
`coatcheck.engine.webhooks.concurrency` decides how many calls each lane and each tenant may have in
progress. A call takes 15 seconds at most, including everything.

The loop sleeps until the earliest delivery is due. The store wakes it when a delivery is added, or
when any process schedules a retry (`Topic.WEBHOOKS`); a poll every `NET_S` covers a lost wake-up.

Results of calls are written in batches. If a process is killed between a call and that write, the
delivery is claimed again when its lease expires.

A job's own endpoint gets the message format of the surface that submitted the job, if its kind has
one (`coatcheck.model.webhook_format`). Every other endpoint gets Standard Webhooks.

The dispatcher never changes a job: a failing receiver can only miss notifications.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from coatcheck.clock import Clock
from coatcheck.egress.outbound import OutboundClient
from coatcheck.engine.maintenance.metrics import Metrics
from coatcheck.engine.payloads.payloads import PayloadStore
from coatcheck.engine.webhooks.concurrency import DeliverySlot, DeliverySlots
from coatcheck.engine.webhooks.endpoints import WebhookEndpoints
from coatcheck.errors import EgressDenied, EgressFailed, NotFound, StoreError
from coatcheck.model.artifact import Artifact
from coatcheck.model.event import JobEvent
from coatcheck.model.job import Job
from coatcheck.model.webhook import (
    GIVE_UP_AFTER_MS,
    LOG_LENGTH,
    OWN,
    SCHEDULE_S,
    DeliveryAttempt,
    DeliveryState,
    WebhookDelivery,
    WebhookEndpoint,
    body_of,
    delivery_id,
    message_id,
    next_try,
    signature,
)
from coatcheck.model.webhook_format import FormattedWebhook, WebhookFormat
from coatcheck.store.base import Signal, Store, Topic
from coatcheck.store.webhooks import DeliveryClaim, DeliveryResult, EndpointHealth

log = logging.getLogger(__name__)

TIMEOUT_S = 15.0
# Longer than any call plus the write that follows it.
LEASE_MS = 60_000
# How many results are written together.
WRITTEN_TOGETHER = 256
# How much of a response is read; the content is ignored.
MOST_BYTES = 16_384
# The longest sleep, and the pause after an outage of the store.
NET_S = 30.0
RETRY_S = 2.0
# How long secrets are cached. A new one is used beside the old one for a day.
SECRETS_S = 5.0
USER_AGENT = "Coatcheck"


async def wait_for_event(event: asyncio.Event, seconds: float) -> None:
    """Return when the event is set or the time has passed."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class _Unsigned(Exception):
    """Raised if there is no secret to sign a delivery with."""


class _Told:
    """The data of a job that a webhook format may read."""

    def __init__(self, store: Store, payload_store: PayloadStore) -> None:
        self._store = store
        self._payload_store = payload_store

    async def events_before(self, delivery: WebhookDelivery, most: int) -> list[JobEvent]:
        """Return the newest entries of the job's log before the event of a delivery."""
        tenant, job_id, seq, _ = delivery.key
        found = await self._store.jobs.list_events(tenant, job_id, max(0, seq - 1 - most), most)
        return [event for event in found if event.seq < seq]

    async def stream(self, artifact: Artifact) -> AsyncIterator[bytes]:
        """Open a file of the job."""
        return await self._payload_store.stream(artifact)


class WebhookDispatcher:
    """The dispatcher of one process."""

    def __init__(
        self,
        store: Store,
        webhooks: WebhookEndpoints,
        outbound: OutboundClient,
        clock: Clock,
        metrics: Metrics,
        payload_store: PayloadStore,
        wordings: Mapping[str, WebhookFormat],
        *,
        spread: Callable[[], float] = random.random,
        wait: Callable[[asyncio.Event, float], Awaitable[None]] = wait_for_event,
    ) -> None:
        self._store = store
        self._webhooks = webhooks
        self._outbound = outbound
        self._clock = clock
        self._metrics = metrics
        self._payload_store = payload_store
        self._wordings = wordings
        self._spread = spread
        self._wait = wait
        self._calls: set[asyncio.Task[None]] = set()
        self._lanes = DeliverySlots(clock)
        self._secrets: dict[tuple[str, str], tuple[float, list[str]]] = {}
        self._unwritten: list[DeliveryResult] = []
        # One claim and one write at a time, so that the state between two of them is consistent:
        # every claimed delivery has a call, and no result is dropped before it is written.
        self._claiming = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._look = asyncio.Event()
        self._written = asyncio.Event()

    async def run(self) -> None:
        """Deliver due messages until cancelled; wait out any outage of the store."""
        with contextlib.closing(self._store.subscribe(Topic.WEBHOOKS)) as woken:
            helpers = [asyncio.create_task(self._listen(woken)), asyncio.create_task(self._write())]
            try:
                while True:
                    self._look.clear()
                    try:
                        wait_s = await self._start_due()
                    except StoreError as error:
                        log.warning("delivery claim failed", extra={"why": str(error)})
                        wait_s = RETRY_S
                    await self._wait(self._look, wait_s)
            finally:
                for task in (*helpers, *self._calls):
                    task.cancel()
                await asyncio.gather(*helpers, *self._calls, return_exceptions=True)
                await self._write_the_rest()
                await self.close()

    async def close(self) -> None:
        """Close the connections to receivers."""
        await self._outbound.close()

    async def deliver_due(self) -> None:
        """Deliver everything that is due, and return when the results are written.

        Also correct beside `run()`: due deliveries are listed once more after all results are
        written.
        """
        while True:
            async with self._claiming:
                at_rest = not self._calls and not self._unwritten
                await self._claim_and_start()
            if at_rest and not self._calls and not self._unwritten:
                return
            await asyncio.gather(*self._calls)
            await self._flush()

    async def _listen(self, woken: Signal) -> None:
        while True:
            await woken.wait()
            self._look.set()

    # --- starting calls

    async def _start_due(self) -> float:
        """Start the calls that slots are free for; return the seconds until more may be due."""
        async with self._claiming:
            return await self._claim_and_start()

    async def _claim_and_start(self) -> float:
        now = self._clock.now()
        lanes = await self._store.webhooks.list_delivery_lanes()
        allotted = self._lanes.allot(lane for lane in lanes if lane.due_at <= now)
        if allotted:
            wanted = {place.lane: most for place, most in allotted.items()}
            claims = await self._store.webhooks.claim_deliveries(now, now + LEASE_MS, wanted)
            places = {place.lane: place for place in allotted}
            for claimed in claims:
                self._start(claimed, places[claimed.lane])
            if claims:
                return 0.0  # there may be more
        # Another process may have claimed these deliveries and so held back a lane here.
        wait_s = RETRY_S if allotted else NET_S
        next_at = min((lane.due_at for lane in lanes if lane.due_at > now), default=None)
        return wait_s if next_at is None else min(wait_s, (next_at - now) / 1000)

    def _start(self, claimed: DeliveryClaim, place: DeliverySlot) -> None:
        self._lanes.take(place)
        call = asyncio.create_task(self._call(claimed))
        self._calls.add(call)
        call.add_done_callback(lambda call: self._ended(call, place))

    def _ended(self, call: asyncio.Task[None], place: DeliverySlot) -> None:
        self._calls.discard(call)
        if self._lanes.leave(place):
            self._look.set()

    async def _call(self, claimed: DeliveryClaim) -> None:
        noted = await self._deliver(claimed)
        if noted is not None:
            self._unwritten.append(noted)
            self._written.set()

    # --- one call

    async def _deliver(self, claimed: DeliveryClaim) -> DeliveryResult | None:
        delivery, endpoint = claimed.delivery, claimed.endpoint
        now = self._clock.now()
        if endpoint is None or endpoint.disabled_at is not None or claimed.kind is None:
            why = "the webhook is deleted" if endpoint is None else "the webhook is disabled"
            if delivery.key.endpoint != OWN:  # no call in this lane, so it cannot be silent
                self._lanes.learn(claimed.lane, taken=True)
            return self._over(delivery, DeliveryState.FAILED, DeliveryAttempt(now, None, why, 0))
        try:
            wording = await self._wording_for(claimed)
            worded = await self._words_of(claimed.kind, delivery, endpoint, wording)
        except (NotFound, _Unsigned):  # deleted just now
            tried = DeliveryAttempt(now, None, "the webhook is deleted", 0)
            return self._over(delivery, DeliveryState.FAILED, tried)
        except StoreError as error:
            log.warning("webhook not formatted", extra={"why": str(error)})
            return None  # the delivery is claimed again
        if worded is None:
            return self._over(
                delivery, DeliveryState.DELIVERED, DeliveryAttempt(now, None, None, 0)
            )
        began = self._clock.monotonic()
        status, error_text = await self._send(claimed, endpoint.url, worded)
        took_ms = round((self._clock.monotonic() - began) * 1000)
        tried = DeliveryAttempt(now, status, error_text, took_ms)
        return self._judge(claimed.lane, delivery, endpoint, tried, wording)

    async def _wording_for(self, claimed: DeliveryClaim) -> tuple[WebhookFormat, Job] | None:
        """Return the format of the job's surface, and the job; None for the standard format."""
        wording = self._wordings.get(claimed.kind or "")
        key = claimed.delivery.key
        if wording is None or key.endpoint != OWN:
            return None
        job = await self._store.jobs.get(key.tenant, key.job_id)
        if job.surface != wording.surface:
            return None
        return wording, await self._payload_store.with_result(job)

    async def _words_of(
        self,
        kind: str,
        delivery: WebhookDelivery,
        endpoint: WebhookEndpoint,
        wording: tuple[WebhookFormat, Job] | None,
    ) -> FormattedWebhook | None:
        if wording is not None:
            words, job = wording
            return await words.word(job, delivery, _Told(self._store, self._payload_store))
        secrets = await self._secrets_for(endpoint)
        if not secrets:  # nothing is sent unsigned
            raise _Unsigned
        body = body_of(delivery, kind)
        message, timestamp = message_id(delivery.key), self._clock.now() // 1000
        return FormattedWebhook(
            body,
            {
                "webhook-id": message,
                "webhook-timestamp": str(timestamp),
                "webhook-signature": signature(secrets, message, timestamp, body),
            },
        )

    async def _send(
        self, claimed: DeliveryClaim, url: str, worded: FormattedWebhook
    ) -> tuple[int | None, str | None]:
        headers = {
            "content-type": "application/json",
            "user-agent": USER_AGENT,
            **worded.headers,
        }
        if claimed.traceparent is not None:
            headers["traceparent"] = claimed.traceparent
        try:
            answer = await self._outbound.send(
                "POST", url, headers, worded.body, timeout_s=TIMEOUT_S, max_bytes=MOST_BYTES
            )
        except (EgressDenied, EgressFailed) as error:
            return None, str(error)
        if 200 <= answer.status < 300:
            return answer.status, None
        what = "a redirect, which is not followed" if 300 <= answer.status < 400 else "refused"
        return answer.status, f"answered {answer.status}: {what}"

    def _judge(
        self,
        lane: str,
        delivery: WebhookDelivery,
        endpoint: WebhookEndpoint,
        tried: DeliveryAttempt,
        wording: tuple[WebhookFormat, Job] | None,
    ) -> DeliveryResult:
        """Decide the next state of a delivery and its endpoint after a call."""
        self._lanes.learn(lane, taken=tried.error is None)
        if tried.error is None:
            health = None if endpoint.failing_since is None else EndpointHealth(None)
            return self._over(delivery, DeliveryState.DELIVERED, tried, health)
        since = tried.at if endpoint.failing_since is None else endpoint.failing_since
        health = None if endpoint.failing_since is not None else EndpointHealth(since)
        if tried.status == 410:
            health = EndpointHealth(since, tried.at, "it answered 410: gone")
            return self._over(delivery, DeliveryState.FAILED, tried, health)
        if endpoint.id != OWN and tried.at - since >= GIVE_UP_AFTER_MS:
            health = EndpointHealth(since, tried.at, "it has taken nothing for three days")
        schedule_s = SCHEDULE_S if wording is None else wording[0].schedule_s
        due_at = next_try(delivery.tries, self._clock.now(), self._spread(), schedule_s)
        if due_at is None:
            return self._over(delivery, DeliveryState.FAILED, tried, health)
        return self._note(delivery, DeliveryState.PENDING, due_at, tried, health)

    def _over(
        self,
        delivery: WebhookDelivery,
        state: DeliveryState,
        tried: DeliveryAttempt,
        health: EndpointHealth | None = None,
    ) -> DeliveryResult:
        return self._note(delivery, state, None, tried, health)

    def _note(
        self,
        delivery: WebhookDelivery,
        state: DeliveryState,
        due_at: int | None,
        tried: DeliveryAttempt,
        health: EndpointHealth | None,
    ) -> DeliveryResult:
        outcome = "retried" if state is DeliveryState.PENDING else str(state)
        self._metrics.delivered(outcome)
        told = {
            "delivery": delivery_id(delivery.key),
            "job_id": delivery.key.job_id,
            "attempt": delivery.attempts,
            "status": tried.status,
        }
        if state is DeliveryState.DELIVERED:
            log.debug("webhook delivered", extra=told)
        else:
            log.info("webhook not delivered", extra={**told, "why": tried.error, "then": outcome})
        if health is not None and health.disabled_at is not None:
            log.warning("webhook disabled", extra={**told, "why": health.disabled_why})
        tries = (*delivery.log, tried)[-LOG_LENGTH:]
        return DeliveryResult(delivery.key, delivery.attempts, state, due_at, tries, health)

    async def _secrets_for(self, endpoint: WebhookEndpoint) -> list[str]:
        place, now = (endpoint.tenant, endpoint.id), self._clock.monotonic()
        known = self._secrets.get(place)
        if known is None or now - known[0] > SECRETS_S:
            if len(self._secrets) > 1_000:
                self._secrets.clear()
            known = now, await self._webhooks.signing_secrets(endpoint.id, endpoint.tenant)
            self._secrets[place] = known
        return known[1]

    # --- writing results

    async def _write(self) -> None:
        while True:
            await self._written.wait()
            self._written.clear()
            try:
                await self._flush()
            except StoreError as error:
                log.warning("delivery results not recorded", extra={"why": str(error)})
                await asyncio.sleep(RETRY_S)
                self._written.set()

    async def _flush(self) -> None:
        async with self._writing:
            while batch := self._unwritten[:WRITTEN_TOGETHER]:
                await self._store.webhooks.record_deliveries(batch)
                del self._unwritten[: len(batch)]

    async def _write_the_rest(self) -> None:
        """Write the remaining results when this process stops.

        Deliveries whose result cannot be written are sent again.
        """
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(RETRY_S):
                await self._flush()
