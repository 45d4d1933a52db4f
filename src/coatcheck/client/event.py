"""Event: one entry of a job's log, as a client sees it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a job.

    `type` is `state`, `progress`, `log` and so on. `reset` says that the log does not reach back to
    where the reading was: its data is the job as it stands, and the log goes on from there.
    """

    seq: int
    type: str
    at: datetime
    data: Any  # an object; of an `output` what the handler gave out
