"""Being known to the store: one row of this worker's own, renewed by heartbeats.

The id is new at every registration, so that nothing a former self did, or is still doing, can be
mistaken for this one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable

from coatcheck.engine.engine import Engine
from coatcheck.errors import StoreUnavailable
from coatcheck.model.worker import WorkerInfo
from coatcheck.worker.failpoints import Probe
from coatcheck.worker.store_retry import persist

log = logging.getLogger(__name__)

BEATS_PER_LEASE = 3


class Heartbeat:
    """A worker's registration and its heartbeat."""

    def __init__(
        self,
        engine: Engine,
        *,
        slots: int,
        lease_s: float,
        probe: Probe,
        on_registered: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._on_registered = on_registered
        self._slots = slots
        self._every_s = lease_s / BEATS_PER_LEASE
        self._probe = probe
        self.worker_id = ""

    async def register(self) -> None:
        """Make this worker known under a new id."""
        await persist(self._register)
        self._on_registered()

    async def beat(self, on_lost: Callable[[], None]) -> None:
        """Heartbeat until cancelled. If others took this worker for lost, start anew."""
        while True:
            await asyncio.sleep(self._every_s)
            self._probe("worker.before_beat")
            try:
                known = await self._engine.store.workers.heartbeat(self.worker_id)
            except StoreUnavailable as error:
                log.warning("the heartbeat could not be written", extra={"why": str(error)})
                continue
            self._probe("worker.after_beat")
            if not known:
                log.error("taken for lost; starting anew", extra={"worker": self.worker_id})
                on_lost()
                await self.register()

    async def leave(self) -> None:
        """Say goodbye; without it the sweep finds out."""
        try:
            await self._engine.store.workers.remove_worker(
                self.worker_id, None, self._engine.clock.now()
            )
        except StoreUnavailable:
            log.warning("could not say goodbye", extra={"worker": self.worker_id})

    async def _register(self) -> None:
        info = WorkerInfo(
            id=self._engine.new_id(),
            host=socket.gethostname(),
            pid=os.getpid(),
            kinds=self._engine.names_of(self._engine.kinds),
            slots=self._slots,
            started_at=self._engine.clock.now(),
        )
        await self._engine.store.workers.register_worker(info)
        self.worker_id = info.id
