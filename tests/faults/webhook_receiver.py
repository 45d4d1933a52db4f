"""A receiver of webhooks for some jobs of a stage, and a check of P7.

Worker processes deliver, and die with deliveries in progress. Those are sent again after a minute;
at the end of a run, a dispatcher whose clock is a day ahead sends the rest.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence

from coatcheck.clock import SystemClock
from coatcheck.egress.policy import EgressPolicy
from coatcheck.engine.engine import Engine
from coatcheck.engine.webhooks.endpoints import WebhookSpec
from coatcheck.model.job import JobInsert
from coatcheck.model.kind import Kind
from coatcheck.model.webhook import PREFIX, Callback
from coatcheck.store.base import Store
from coatcheck.testing.checker import JobRecord, ReceivedWebhook
from tests.webhooks.receiver import Call, Receiver, receiving

from .place import HERE

DAY_MS = 86_400_000


class Tomorrow(SystemClock):
    """A clock that is a day ahead."""

    def now(self) -> int:
        return super().now() + DAY_MS


class Hearing:
    """A receiver for the ends of jobs, and which jobs it is owed."""

    def __init__(self, receiver: Receiver, engine: Engine) -> None:
        self.asked_by: set[str] = set()
        self._receiver = receiver
        self._engine = engine
        self._callbacks: dict[str, Callback] = {}

    async def ask(self, job: JobInsert) -> JobInsert:
        """Have it told of a job's end."""
        if job.tenant not in self._callbacks:
            submitted = WebhookSpec(self._receiver.url)
            self._callbacks[job.tenant] = await self._engine.webhooks.resolve_callback(
                submitted, job.tenant
            )
        self.asked_by.add(job.id)
        return job._replace(webhook=self._callbacks[job.tenant])

    @property
    def heard(self) -> list[ReceivedWebhook]:
        """What came, in its order."""
        return [delivery_of(call) for call in self._receiver.calls]

    def owed(self, records: Sequence[JobRecord]) -> set[tuple[str, str]]:
        """Return what it has to have heard of: the end of each job that asked for it and is there.

        The deliveries of a job that was deleted are called off.
        """
        return {
            (record.id, f"{PREFIX}{record.job.state}")
            for record in records
            if record.job is not None
            and record.job.state.is_terminal
            and record.id in self.asked_by
        }


def delivery_of(call: Call) -> ReceivedWebhook:
    """Read what a call tells of."""
    message = json.loads(call.body)
    return ReceivedWebhook(message["data"]["id"], message["type"], call.id)


@contextlib.asynccontextmanager
async def hearing(engine: Engine) -> AsyncIterator[Hearing]:
    """Have a receiver in this process that takes all it is told."""
    async with receiving() as receiver:
        yield Hearing(receiver, engine)


async def deliver_the_rest(store: Store, kinds: Mapping[str, Kind]) -> None:
    """Deliver what those who were killed had in their hands."""
    engine = Engine(store, kinds, Tomorrow(), egress=EgressPolicy(HERE))
    try:
        await engine.dispatcher.deliver_due()
    finally:
        await engine.dispatcher.close()
