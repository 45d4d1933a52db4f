"""A worker that dies where a test wants it to: the handler is ended, and nothing more is written.

The handler sees no exception that its own `except Exception` could handle. Should it go on all the
same (`asyncio.gather` of several calls, one of which died), it finds every call of `ctx` dead.
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
    """Ends an attempt where a test wants its worker to die; no `except Exception` catches it."""


class CrashPoint:
    """Where a worker dies, if anywhere: at the end of the so-many-th call of `ctx`; or when a step
    of that name has run, before it is on record.
    """

    def __init__(self, at: int | str | None) -> None:
        self._at = at
        self._calls = 0
        self.crashed = False

    def begin_call(self) -> int:
        """The handler calls `ctx`; return which call it is, from 1."""
        self.check()
        self._calls += 1
        return self._calls

    def end_call(self, number: int) -> None:
        """A call of `ctx` is over, however it ended."""
        self.crashed = self.crashed or number == self._at
        self.check()

    def before_write(self, step: Step) -> None:
        """A step is done and about to be written."""
        self.crashed = self.crashed or self._at in (step.id.name, step.id.label)
        self.check()

    def check(self) -> None:
        """Raise if the worker is dead."""
        if self.crashed:
            raise Crash(f"the worker dies at {self._at!r}")


class InlineContext(Context):
    """A context whose calls are counted. No wait is short on a clock that jumps: each is one for
    which the job is given up.
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
