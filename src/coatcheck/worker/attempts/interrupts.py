"""Why a handler is stopped before it is done, and what it sees of that."""

from __future__ import annotations

from enum import StrEnum


class Interrupt(StrEnum):
    """Why a handler is told to stop before it is done."""

    CANCEL = "cancel"
    TIMEOUT = "timeout"
    DRAIN = "drain"
    LOST = "lost"


class Interrupted(BaseException):
    """Raised in a `def` handler at its next call of `ctx` once it was told to stop.

    Not an Exception, so that a handler's own `except Exception` does not swallow it.
    """


class HandlerSuspended(BaseException):
    """Raised in a `def` handler that waits: it is called again when it may go on."""
