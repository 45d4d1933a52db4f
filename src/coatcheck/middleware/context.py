"""What an endpoint finds at `scope["coatcheck"]` while it is run for a job: its `ctx`.

It is a handler's context (coatcheck.worker.steps.context) as seen from the server's loop, where the
endpoint runs: the same methods, all awaited. What needs the worker is done on the worker's loop;
the body of an `async def` step comes back to the server's, where the endpoint's pools are.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

from coatcheck.middleware.loops import on_loop
from coatcheck.model.handler import is_async
from coatcheck.worker.steps.context import Context


class EndpointContext:
    """An endpoint's view of the job it is run for."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._worker = asyncio.get_running_loop()

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self._context.job_id

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._context.attempt

    @property
    def cancelled(self) -> bool:
        """Whether the endpoint should stop: cancelled, out of time, or its server is going away."""
        return self._context.cancelled

    @property
    def step_key(self) -> str:
        """In the body of a step: a name for it that is the same whenever it is tried."""
        return self._context.step_key

    async def progress(
        self, done: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Say how far the job has come."""
        await self._context.progress(done, total, message)

    async def phase(self, name: str) -> None:
        """Name what the job is doing now."""
        await self._context.phase(name)

    async def log(self, message: str, **fields: object) -> None:
        """Add a line to the job's own log, for whoever submitted it."""
        await self._context.log(message, **fields)

    async def emit(self, data: Any) -> None:
        """Give out a part of the result, for whoever follows the job."""
        await self._context.emit(data)

    async def step(self, fn: Callable[..., Any], *args: Any, **policy: Any) -> Any:
        """Run a function and keep its result for good: a later attempt gets that, without running
        it again. `key`, `retries` and `timeout` are those of `ctx.step`.
        """
        return await self._ask(self._context.step, self._brought_back(fn), *args, **policy)

    async def artifact(self, name: str, data: Any, content_type: str | None = None) -> Any:
        """Leave a file behind, for whoever submitted the job."""
        return await self._ask(self._context.artifact, name, data, content_type)

    async def sleep(self, duration: Any) -> None:
        """Wait, without holding a slot if that is long: then the endpoint is called again, and what
        its steps have done is not done again.
        """
        await self._ask(self._context.sleep, duration)

    async def wait_for(self, event: str, timeout: Any = None) -> Any:
        """Wait until somebody sends this event to the job."""
        return await self._ask(self._context.wait_for, event, timeout)

    async def _ask(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        async def asked() -> Any:
            return await method(*arguments, **named)

        return await on_loop(self._worker, asked())

    def _brought_back(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        if not is_async(fn):
            return fn
        server = asyncio.get_running_loop()

        @functools.wraps(fn)
        async def on_the_server(*arguments: Any) -> Any:
            return await on_loop(server, fn(*arguments))

        return on_the_server
