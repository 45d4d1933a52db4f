"""What earlier attempts at an execution have noted, so that no command is run a second time.

A cluster forgets a Job some time after it has ended. Who takes an execution over after that finds
nothing, as if it had never been started; so an attempt notes that it has, as a step of its job.

A note also says that the pod runs: until there is one, an execution is shown as PENDING.

The notes are steps in a row, each with what happened and the mark of the attempt that wrote it. A
step can be read only by taking it, so an attempt reads on until it has written one itself, which
says no more than that it has looked. What counts is the last of the others.

A worker that dies after the Job was created and before that was noted leaves the Job's name to tell
of it (`running/kubernetes`), for as long as the cluster knows it: long enough, unless nobody takes
the execution over until then.
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
    """Tell whether the notes say that the command's pod has run, in any attempt."""
    return any(json.loads(step.result or "[]")[:1] == [RUNNING] for step in steps)


class RunLog:
    """The notes of an execution, as one attempt reads and writes them."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._mark = secrets.token_hex(8)
        self._next = 0
        self._runs = False  # the last start is noted to run
        self.refused = False  # the job is another worker's, as a note has found

    async def read(self) -> bool:
        """Return whether the command is known to have been started, and not to have been ended
        for another try.
        """
        last = LOOKED
        while True:
            what, mark = await self._take(LOOKED)
            if mark == self._mark:
                self._runs = last == RUNNING
                return last in (BEGUN, RUNNING)
            if what != LOOKED:
                last = what

    async def begun(self) -> None:
        """Note that it was started."""
        await self._take(BEGUN)

    async def running(self) -> None:
        """Note that its pod runs."""
        if not self._runs:
            self._runs = True
            await self._take(RUNNING)

    async def given_up(self) -> None:
        """Note that what was started is gone, and that it may be started again."""
        await self._take(GIVEN_UP)

    async def _take(self, what: str) -> tuple[str, str]:
        async def note(what: str, mark: str) -> list[str]:
            return [what, mark]

        try:
            noted, mark = await self._ctx.step(note, what, self._mark, key=self._next)
        except Interrupted:
            self.refused = True
            raise
        self._next += 1
        return noted, mark
