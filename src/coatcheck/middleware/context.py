"""The context of an endpoint that runs for a job, at `scope["coatcheck"]`.

It is a handler's context (coatcheck.worker.steps.context) as seen from the server's loop, where the
endpoint runs: the same methods, all awaited. Calls that need the worker run on the worker's loop.
The function of an `async def` step runs on the server's loop, where the endpoint's pools are.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

from coatcheck.middleware.app_call import run_on_loop
from coatcheck.model.handler import is_async
from coatcheck.worker.steps.context import Context


class EndpointContext:
    """An endpoint's view of its job."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._worker_loop = asyncio.get_running_loop()

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self._context.job_id

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._context.attempt

    @property
    def cancelled(self) -> bool:
        """Whether the endpoint should stop: cancelled, timed out, or its server is stopping."""
        return self._context.cancelled

    @property
    def step_key(self) -> str:
        """In the function of a step: an idempotency key that is the same on every attempt."""
        return self._context.step_key

    async def progress(
        self, done: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Report the job's progress."""
        await self._context.progress(done, total, message)

    async def phase(self, name: str) -> None:
        """Set the job's phase."""
        await self._context.phase(name)

    async def log(self, message: str, **fields: object) -> None:
        """Add an entry to the job's own log, for its submitter."""
        await self._context.log(message, **fields)

    async def emit(self, data: Any) -> None:
        """Emit a part of the result, for readers of the job's events."""
        await self._context.emit(data)

    async def step(self, fn: Callable[..., Any], *args: Any, **policy: Any) -> Any:
        """Run a function and record its result: a later attempt returns the recorded result without
        running it again. `key`, `retries` and `timeout` are those of `ctx.step`.
        """
        return await self._on_worker(self._context.step, self._on_server(fn), *args, **policy)

    async def artifact(self, name: str, data: Any, content_type: str | None = None) -> Any:
        """Store a file with the job."""
        return await self._on_worker(self._context.artifact, name, data, content_type)

    async def sleep(self, duration: Any) -> None:
        """Wait. A long wait holds no slot: the endpoint is called again afterwards, and its
        recorded steps do not run again.
        """
        await self._on_worker(self._context.sleep, duration)

    async def wait_for(self, event: str, timeout: Any = None) -> Any:
        """Wait until this event is sent to the job."""
        return await self._on_worker(self._context.wait_for, event, timeout)

    async def _on_worker(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        async def call() -> Any:
            return await method(*arguments, **named)

        return await run_on_loop(self._worker_loop, call())

    def _on_server(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        if not is_async(fn):
            return fn
        server_loop = asyncio.get_running_loop()

        @functools.wraps(fn)
        async def call(*arguments: Any) -> Any:
            return await run_on_loop(server_loop, fn(*arguments))

        return call
