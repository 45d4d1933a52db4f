"""Failures made from exceptions."""

from __future__ import annotations

import traceback

from coatcheck.model.job import Failure
from coatcheck.model.text import storable

LONGEST_MESSAGE = 2_000
LONGEST_DETAIL = 16_000


def describe_error(error: BaseException) -> str:
    """Return an exception's type and message."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - a broken __str__
        message = "(no message)"
    return storable(f"{type(error).__name__}: {message}"[:LONGEST_MESSAGE])


def format_traceback(error: BaseException) -> str:
    """Return the end of an exception's traceback."""
    return storable("".join(traceback.format_exception(error))[-LONGEST_DETAIL:])


def make_failure(error: BaseException) -> Failure:
    """Return the failure of a step that raised an exception."""
    return Failure(
        type(error).__name__, describe_error(error), format_traceback(error), retryable=True
    )
