"""Simulated worker crashes: the handler is ended, and nothing more is written.

The handler cannot catch the crash with `except Exception`. If it continues anyway (`asyncio.gather`
of several calls, one of which crashed), every further `ctx` call crashes too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from coatcheck.clock import Clock
from coatcheck.model.job import Claim
from coatcheck.model.kind import Kind
from coatcheck.model.step import Step
from coatcheck.worker.steps.context import Context
from coatcheck.worker.steps.effects import Effects
from coatcheck.worker.steps.step_runner import HandlerRequests


class Crash(BaseException):
    """A simulated worker crash that ends an attempt; `except Exception` does not catch it."""


class CrashPoint:
    """The point at which a worker dies, if any.

    The point is either the end of the n-th `ctx` call, or the moment after a named step has run and
    before it is recorded.
    """

    def __init__(self, at: int | str | None) -> None:
        self._at = at
        self._calls = 0
        self.crashed = False

    def begin_call(self) -> int:
        """Start a `ctx` call and return its number, counted from 1."""
        self.check()
        self._calls += 1
        return self._calls

    def end_call(self, number: int) -> None:
        """End a `ctx` call, whether it succeeded or failed."""
        self.crashed = self.crashed or number == self._at
        self.check()

    def before_write(self, step: Step) -> None:
        """Crash here if the crash point names this step, which has run but is not written."""
        self.crashed = self.crashed or self._at in (step.id.name, step.id.label)
        self.check()

    def check(self) -> None:
        """Raise `Crash` if the worker is dead."""
        if self.crashed:
            raise Crash(f"the worker dies at {self._at!r}")


class InlineContext(Context):
    """A context that counts its calls.

    No wait is short on a clock that jumps, so every wait suspends the job.
    """

    def __init__(
        self,
        claim: Claim,
        kind: Kind,
        *,
        blocking: bool,
        requests: HandlerRequests,
        clock: Clock,
        point: CrashPoint,
    ) -> None:
        super().__init__(
            claim,
            blocking=blocking,
            requests=requests,
            clock=clock,
            backoff=kind.backoff,
            short_ms=0,
        )
        self._point = point

    def _run_durable(self, *arguments: Any) -> Any:
        return self._counted(super()._run_durable, *arguments)

    def _run_effects(self, effects: Effects) -> Any:
        return self._counted(super()._run_effects, effects)

    def _counted(self, call: Callable[..., Any], *arguments: Any) -> Any:
        number = self._point.begin_call()
        if not self._blocking:
            return self._until_done(call(*arguments), number)
        try:
            return call(*arguments)
        finally:
            self._point.end_call(number)

    async def _until_done(self, started: Awaitable[Any], number: int) -> Any:
        try:
            return await started
        finally:
            self._point.end_call(number)
