"""What the doctor finds."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Level(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    WARNING = "warning"  # it works, and somebody should know
    PROBLEM = "problem"  # something does not work


class Finding(NamedTuple):
    """One thing that was looked at: what was found, and what to do about it."""

    area: str
    level: Level
    message: str
    advice: str = ""


def ok(area: str, message: str, advice: str = "") -> Finding:
    """Return a finding that is as it should be."""
    return Finding(area, Level.OK, message, advice)


def warning(area: str, message: str, advice: str) -> Finding:
    """Return a finding that somebody should know of."""
    return Finding(area, Level.WARNING, message, advice)


def problem(area: str, message: str, advice: str) -> Finding:
    """Return a finding that keeps something from working."""
    return Finding(area, Level.PROBLEM, message, advice)
