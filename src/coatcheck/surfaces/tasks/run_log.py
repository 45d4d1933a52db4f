"""Notes of an execution's attempts, so that no command is run twice.

A cluster deletes a Job some time after it has finished. A worker that takes over an execution later
finds nothing, as if the command had never been started. Therefore an attempt records as a step of
its job that it has started the command.

A note also records that the pod runs: until then, an execution is shown as PENDING.

The notes are consecutive steps, each with an event and the mark of the attempt that wrote it. A
step can be read only by running it, so an attempt reads notes until it has written one itself,
which only says that it has looked. The last of the other notes is the current state.

If a worker dies after creating the Job and before recording it, the Job's name identifies it
(`runners/kubernetes`) while the cluster keeps the Job. That is long enough unless no worker takes
over the execution until then.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable

from coatcheck.model.step import Step
from coatcheck.worker.attempts.interrupts import Interrupted
from coatcheck.worker.steps.context import Context

LOOKED, BEGUN, RUNNING, GIVEN_UP = "looked", "begun", "running", "given up"


def has_run(steps: Iterable[Step]) -> bool:
    """Report whether the notes say that the command's pod has run, in any attempt."""
    return any(json.loads(step.result or "[]")[:1] == [RUNNING] for step in steps)


class RunLog:
    """The notes of an execution, as one attempt reads and writes them."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._mark = secrets.token_hex(8)
        self._next = 0
        self._is_running = False  # the last started run is recorded as running
        self.lease_lost = False  # a note found that another worker has the job

    async def read(self) -> bool:
        """Return whether the command was started and not given up for another attempt."""
        last = LOOKED
        while True:
            what, mark = await self._note(LOOKED)
            if mark == self._mark:
                self._is_running = last == RUNNING
                return last in (BEGUN, RUNNING)
            if what != LOOKED:
                last = what

    async def started(self) -> None:
        """Record that the command was started."""
        await self._note(BEGUN)

    async def running(self) -> None:
        """Record that its pod runs."""
        if not self._is_running:
            self._is_running = True
            await self._note(RUNNING)

    async def abandoned(self) -> None:
        """Record that the started Job is gone and that the command may be started again."""
        await self._note(GIVEN_UP)

    async def _note(self, what: str) -> tuple[str, str]:
        async def note(what: str, mark: str) -> list[str]:
            return [what, mark]

        try:
            noted, mark = await self._ctx.step(note, what, self._mark, key=self._next)
        except Interrupted:
            self.lease_lost = True
            raise
        self._next += 1
        return noted, mark
