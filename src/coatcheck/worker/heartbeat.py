"""A worker's registration: one row in the store, renewed by heartbeats.

Each registration has a new id, so nothing that an earlier registration did, or is still doing, can
be mistaken for the current one.
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
from coatcheck.worker.failpoints import Failpoint
from coatcheck.worker.store_retry import retry_until_available

log = logging.getLogger(__name__)

BEATS_PER_LEASE = 3


class Heartbeat:
    """A worker's registration and its heartbeat."""

    def __init__(self, engine: Engine, *, slots: int, lease_s: float, failpoint: Failpoint) -> None:
        self._engine = engine
        self._slots = slots
        self._every_s = lease_s / BEATS_PER_LEASE
        self._failpoint = failpoint
        self.worker_id = ""

    async def register(self) -> None:
        """Register the worker under a new id."""
        await retry_until_available(self._register)

    async def run(self, on_lost: Callable[[], None], on_registered: Callable[[], None]) -> None:
        """Send heartbeats until cancelled. If the worker was declared lost, register anew."""
        while True:
            await asyncio.sleep(self._every_s)
            self._failpoint("worker.before_beat")
            try:
                known = await self._engine.store.workers.heartbeat(self.worker_id)
            except StoreUnavailable as error:
                log.warning("heartbeat failed", extra={"why": str(error)})
                continue
            self._failpoint("worker.after_beat")
            if not known:
                log.error(
                    "worker declared lost: registering anew", extra={"worker": self.worker_id}
                )
                on_lost()
                await self.register()
                on_registered()

    async def deregister(self) -> None:
        """Remove the registration. If that fails, the sweep removes it later."""
        try:
            await self._engine.store.workers.remove_worker(
                self.worker_id, None, self._engine.clock.now()
            )
        except StoreUnavailable:
            log.warning("worker not deregistered", extra={"worker": self.worker_id})

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
