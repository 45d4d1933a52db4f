"""Opening an engine for a long-running process, with its store, blobs and background tasks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from coatcheck.blobs.open import blobs_for
from coatcheck.clock import SystemClock
from coatcheck.crypto.pepper import pepper_for
from coatcheck.crypto.secret_refs import resolve, resolver_for
from coatcheck.egress.policy import EgressPolicy
from coatcheck.engine.audit import AuditRetention
from coatcheck.engine.engine import Engine
from coatcheck.engine.maintenance.sweep import Sweeper
from coatcheck.engine.open_requests import limits_for
from coatcheck.errors import ConfigurationError
from coatcheck.model.kind import Kind
from coatcheck.model.schedule import ScheduleDefinition
from coatcheck.model.webhook import key_of
from coatcheck.settings import Settings
from coatcheck.store.open import store_for
from coatcheck.tracing import NO_TRACING, Tracing


class Declared(Protocol):
    """The parts of an app that an engine needs."""

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """The declared kinds by name."""
        ...

    @property
    def schedules(self) -> Mapping[str, ScheduleDefinition]:
        """The declared schedules by name."""
        ...


@contextlib.asynccontextmanager
async def open_engine(
    app: Declared,
    settings: Settings,
    tidying: Sequence[Callable[[Engine], Awaitable[None]]] = (),
    tracing: Tracing = NO_TRACING,
) -> AsyncIterator[Engine]:
    """Open the store, and sweep, fire schedules and deliver webhooks while the engine is in use.

    Each sweep also calls the functions in `tidying`.
    """
    blobs = blobs_for(settings)  # raises if the address is wrong
    egress = EgressPolicy(settings.egress_allow)
    webhook_secret = _webhook_secret(settings)
    store = store_for(settings)
    await store.open()
    clock = SystemClock()
    engine = Engine(
        store,
        app.kinds,
        clock,
        lease_s=settings.lease_s,
        blobs=blobs,
        egress=egress,
        webhook_secret=webhook_secret,
        pepper=pepper_for(settings).read,
        limits=limits_for(settings),
        tracing=tracing,
    )
    audit = AuditRetention(store, clock, settings.audit_days)
    sweeper = Sweeper(
        store,
        clock,
        lease_s=settings.lease_s,
        sweep_s=settings.sweep_s,
        payload_store=engine.payload_store,
        chores=[audit.sweep, *(partial(tidy, engine) for tidy in tidying)],
    )
    tasks: list[asyncio.Task[None]] = []
    try:
        await engine.authenticator.refresh_epoch()
        await engine.schedules.register(app.schedules.values())
        chores = (
            *(sweeper.run(), engine.scheduler.run()),
            *(engine.dispatcher.run(), engine.metrics.run()),
            engine.authenticator.key_uses.run(),
        )
        tasks += [asyncio.create_task(chore) for chore in chores]
        yield engine
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        engine.release_waiters()
        await store.close()
        blobs.close()


def _webhook_secret(settings: Settings) -> str:
    given = settings.webhook_secret
    if given and settings.is_production and resolver_for(given) is None:
        raise ConfigurationError(
            "webhook_secret: in production it is a reference, such as file:/run/secrets/webhooks"
        )
    secret = resolve(given)
    try:
        if secret:
            key_of(secret)
    except ValueError as error:
        raise ConfigurationError(f"webhook_secret: {error}") from None
    return secret
