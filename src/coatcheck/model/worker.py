"""A worker as the store knows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """One start of one worker process: the id is new each time.

    `beats` goes up with every heartbeat. Whether a worker is alive is judged by whoever looks:
    a counter that stands still for a whole lease on the observer's own monotonic clock. A `pid` of
    0 says that there is no process to look at: it works through the API. A kind that it has in a
    version is in `kinds` twice: as `kind`, and as `kind@version`.
    """

    id: str
    host: str
    pid: int
    kinds: tuple[str, ...]
    slots: int
    started_at: int
    beats: int = 0
