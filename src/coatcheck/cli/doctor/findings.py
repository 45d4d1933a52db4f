"""The findings of the checks."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"  # it works, but needs attention
    PROBLEM = "problem"  # something does not work


class Finding(NamedTuple):
    """The outcome of one check, and advice."""

    area: str
    level: Level
    message: str
    advice: str = ""


def ok(area: str, message: str, advice: str = "") -> Finding:
    """Return a finding without a problem."""
    return Finding(area, Level.OK, message, advice)


def warning(area: str, message: str, advice: str) -> Finding:
    """Return a finding that needs attention."""
    return Finding(area, Level.WARNING, message, advice)


def problem(area: str, message: str, advice: str) -> Finding:
    """Return a finding that prevents something from working."""
    return Finding(area, Level.PROBLEM, message, advice)
