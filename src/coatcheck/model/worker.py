"""A worker as the store records it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """One start of one worker process: the id is new each time.

    `beats` rises with every heartbeat. A sweeper considers a worker lost if the count has not moved
    for a whole lease on the sweeper's own monotonic clock. A `pid` of 0 means a remote worker. A
    kind with a version is in `kinds` twice: as `kind` and as `kind@version`.
    """

    id: str
    host: str
    pid: int
    kinds: tuple[str, ...]
    slots: int
    started_at: int
    beats: int = 0
