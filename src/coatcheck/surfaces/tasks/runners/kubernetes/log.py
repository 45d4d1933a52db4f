"""The log of a command's pod, read as it grows.

A stream that breaks is opened again from the beginning, and what was read before is skipped: the
API has no way to go on from a byte. What it returns is the same each time, since a log only grows
(and one that the cluster has rotated is longer than what is kept here).
"""

from __future__ import annotations

import asyncio
import contextlib

from coatcheck.surfaces.tasks.runners.kubernetes.cluster import Cluster, ClusterBusy, ObjectMissing
from coatcheck.surfaces.tasks.runners.output import CapturedOutput, OutputRelay
from coatcheck.surfaces.tasks.runners.runner import STDOUT_BYTES, RunnerError

_PAUSE_S = 0.3


class Log:
    """What the newest pod has written, kept and told."""

    def __init__(self, cluster: Cluster, telling: OutputRelay) -> None:
        self._cluster = cluster
        self._telling = telling
        self._pod: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self.captured = CapturedOutput(STDOUT_BYTES)
        self.complete = False

    def follow(self, pod: str) -> None:
        """Read the log of this pod from now on; that of another one is forgotten."""
        if pod == self._pod:
            return
        self.stop()
        self._pod = pod
        self._ended.clear()
        self.captured, self.complete = CapturedOutput(STDOUT_BYTES), False
        self._task = asyncio.create_task(self._read(pod))

    async def finish(self, seconds: float) -> None:
        """Read what is still to come of a command that has ended, for so long at most."""
        self._ended.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)
        self.stop()

    def stop(self) -> None:
        """Read no further."""
        if self._task is not None:
            self._task.cancel()

    async def _read(self, pod: str) -> None:
        taken = 0
        while True:
            last = self._ended.is_set()
            seen = 0
            try:
                async with self._cluster.log(pod, STDOUT_BYTES + 1) as pieces:
                    async for piece in pieces:
                        fresh = piece[max(0, taken - seen) :]
                        seen += len(piece)
                        taken = max(taken, seen)
                        self._telling.add(self.captured.add(fresh))
                if last or self.captured.truncated:
                    self.complete = True
                    return
            except ObjectMissing:
                return
            except (ClusterBusy, RunnerError):  # also: the container is still being made
                pass
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _PAUSE_S)
            if last:
                await asyncio.sleep(_PAUSE_S)
