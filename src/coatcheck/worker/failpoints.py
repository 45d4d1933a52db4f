"""Named points a worker passes, so that a fault test can strike exactly there."""

from __future__ import annotations

from collections.abc import Callable

Probe = Callable[[str], None]

# Around each write of what a handler has done for good.
CHECKPOINTS = ("worker.before_checkpoint", "worker.after_checkpoint")
# A large result of a step is in the blob store, and not on record yet.
STEP_STORED = "worker.step_stored"
POINTS = (
    "worker.claimed",
    *CHECKPOINTS,
    "worker.before_settle",
    "worker.after_settle",
    "worker.before_beat",
    "worker.after_beat",
    "worker.draining",
)


def no_probe(_point: str) -> None:
    """Do nothing: what runs in production."""
