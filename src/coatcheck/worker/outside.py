"""What is done for a handler that it cannot do itself: reading a large input, keeping files.

A handler runs in a thread, on a loop or in a process of its own, while the engine lives on the
worker's loop. What it asks for is done there, and it gets a future that any thread or loop can wait
for. In a process of its own the same questions go through the pipe (processes/wire.py).
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol

from coatcheck.blobs.blobs import Data
from coatcheck.errors import StoreError
from coatcheck.model.artifact import Artifact
from coatcheck.model.job import Claim

if TYPE_CHECKING:
    from coatcheck.engine.engine import Engine


__all__ = ["Data", "InputUnreadable", "Outside", "WorkerLoop"]


class InputUnreadable(Exception):
    """The input of a job is kept apart and could not be read; `why` says what was wrong."""

    def __init__(self, why: StoreError) -> None:
        super().__init__(str(why))
        self.why = why


class Outside(Protocol):
    """Does things for the attempts of a worker."""

    def read_input(self, claim: Claim) -> Future[str]:
        """Read the input of a job, which is kept apart."""
        ...

    def keep_artifact(
        self, claim: Claim, name: str, data: Data, content_type: str
    ) -> Future[Artifact]:
        """Keep a file of a job."""
        ...


class WorkerLoop:
    """Does them on the loop of the worker, on which it is made."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()

    def read_input(self, claim: Claim) -> Future[str]:
        """Read the input of a job."""
        reading = self._engine.keeping.read(claim.input)
        return asyncio.run_coroutine_threadsafe(reading, self._loop)

    def keep_artifact(
        self, claim: Claim, name: str, data: Data, content_type: str
    ) -> Future[Artifact]:
        """Keep a file of a job."""
        keeping = self._engine.keeping.keep_artifact(claim.lease, name, data, content_type)
        return asyncio.run_coroutine_threadsafe(keeping, self._loop)
