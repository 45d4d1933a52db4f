"""Why a handler is interrupted, and the exceptions it then sees."""

from __future__ import annotations

from enum import StrEnum


class Interrupt(StrEnum):
    """Why a handler is interrupted."""

    CANCEL = "cancel"
    TIMEOUT = "timeout"
    DRAIN = "drain"
    LOST = "lost"


class Interrupted(BaseException):
    """Raised in an interrupted `def` handler, at its next call of `ctx`.

    Not an Exception, so that a handler's own `except Exception` does not swallow it.
    """


class HandlerSuspended(BaseException):
    """Raised in a `def` handler that waits. The handler is called again when its wait is over."""
