"""The log of a command's pod, read while it grows.

A broken stream is reopened from the start, and bytes that were read before are skipped, because the
API cannot resume at a byte. A log only grows, so its start stays the same (and a log that the
cluster has rotated is longer than the part that is captured here).
"""

from __future__ import annotations

import asyncio
import contextlib

from coatcheck.surfaces.tasks.runners.kubernetes.cluster import Cluster, ClusterBusy, ObjectMissing
from coatcheck.surfaces.tasks.runners.output import CapturedOutput, OutputRelay
from coatcheck.surfaces.tasks.runners.runner import STDOUT_BYTES, RunnerError

_PAUSE_S = 0.3


class PodLog:
    """The captured and relayed log of the newest pod."""

    def __init__(self, cluster: Cluster, relay: OutputRelay) -> None:
        self._cluster = cluster
        self._relay = relay
        self._pod: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._finished = asyncio.Event()
        self.captured = CapturedOutput(STDOUT_BYTES)
        self.complete = False

    def follow(self, pod: str) -> None:
        """Read the log of this pod from now on; discard that of another one."""
        if pod == self._pod:
            return
        self.stop()
        self._pod = pod
        self._finished.clear()
        self.captured, self.complete = CapturedOutput(STDOUT_BYTES), False
        self._task = asyncio.create_task(self._read(pod))

    async def finish(self, seconds: float) -> None:
        """Read the rest of the log of a finished command, for at most this long."""
        self._finished.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)
        self.stop()

    def stop(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()

    async def _read(self, pod: str) -> None:
        read_bytes = 0
        while True:
            last = self._finished.is_set()
            stream_bytes = 0
            try:
                async with self._cluster.log(pod, STDOUT_BYTES + 1) as pieces:
                    async for piece in pieces:
                        new = piece[max(0, read_bytes - stream_bytes) :]
                        stream_bytes += len(piece)
                        read_bytes = max(read_bytes, stream_bytes)
                        self._relay.add(self.captured.add(new))
                if last or self.captured.truncated:
                    self.complete = True
                    return
            except ObjectMissing:
                return
            except (ClusterBusy, RunnerError):  # also while the container is being created
                pass
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._finished.wait(), _PAUSE_S)
            if last:
                await asyncio.sleep(_PAUSE_S)
