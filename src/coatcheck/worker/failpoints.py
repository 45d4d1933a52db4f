"""Failpoints: named points in the worker at which a test can inject a fault."""

from __future__ import annotations

from collections.abc import Callable

# Called with the name of each failpoint that the worker reaches.
Failpoint = Callable[[str], None]

BEFORE_CHECKPOINT = "worker.before_checkpoint"
AFTER_CHECKPOINT = "worker.after_checkpoint"
# Around each write of a checkpoint.
CHECKPOINTS = (BEFORE_CHECKPOINT, AFTER_CHECKPOINT)
# A large step result is in the blob store and not recorded yet.
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


def no_failpoint(_point: str) -> None:
    """Do nothing. Used in production."""
