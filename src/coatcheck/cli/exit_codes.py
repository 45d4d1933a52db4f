"""Exit codes: what a script learns without reading a word. Documented in the reference."""

from __future__ import annotations

from coatcheck.errors import CoatcheckError

OK = 0
FAILED = 1  # the job failed, or the request was refused as things stand
USAGE = 2  # a wrong option, or an input the kind does not take
NOT_FOUND = 3
CANCELLED = 4
UNREACHABLE = 5  # the server does not answer, or cannot take requests now
TIMED_OUT = 6  # it has not ended in time; it goes on
NOT_ALLOWED = 7  # no API key, or one that may not do this
INTERRUPTED = 130

# Of `serve` and `worker`, from sysexits.h. The configuration is wrong: starting again would end
# the same way.
EXIT_CONFIGURATION = 78
# It may work later; a supervisor tries again.
EXIT_TEMPORARY = 75

OF_STATE = {"succeeded": OK, "failed": FAILED, "cancelled": CANCELLED}


class ApiError(CoatcheckError):
    """A call failed; `exit_code` says how."""

    code = "api"

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code
