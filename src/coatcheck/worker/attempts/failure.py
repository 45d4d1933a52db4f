"""What to write about an exception."""

from __future__ import annotations

import traceback

from coatcheck.model.job import Failure
from coatcheck.model.text import storable

LONGEST_MESSAGE = 2_000
LONGEST_DETAIL = 16_000


def words_of(error: BaseException) -> str:
    """Return an exception's type and what it says."""
    try:
        words = str(error)
    except Exception:  # noqa: BLE001 - an error that cannot say what it is about
        words = "(it has no words)"
    return storable(f"{type(error).__name__}: {words}"[:LONGEST_MESSAGE])


def trace_of(error: BaseException) -> str:
    """Return the end of an exception's traceback."""
    return storable("".join(traceback.format_exception(error))[-LONGEST_DETAIL:])


def failure_of(error: BaseException) -> Failure:
    """Return why a step failed."""
    return Failure(type(error).__name__, words_of(error), trace_of(error), retryable=True)
