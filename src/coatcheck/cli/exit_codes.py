"""The exit codes; docs/reference/command-line.md lists them."""

from __future__ import annotations

from coatcheck.errors import CoatcheckError

OK = 0
FAILED = 1  # the job failed, or the request conflicts with the current state
USAGE = 2  # an invalid option, or an input that does not fit the kind
NOT_FOUND = 3
CANCELLED = 4
UNREACHABLE = 5  # the server is unreachable or overloaded
TIMED_OUT = 6  # the wait timed out; the job continues
NOT_ALLOWED = 7  # no API key, or one without the scope
INTERRUPTED = 130

# For `serve` and `worker`, from sysexits.h. The configuration is wrong: a restart cannot help.
EXIT_CONFIGURATION = 78
# A temporary failure: a supervisor should restart the process.
EXIT_TEMPORARY = 75

OF_STATE = {"succeeded": OK, "failed": FAILED, "cancelled": CANCELLED}


class ApiError(CoatcheckError):
    """A failed request, with the exit code for it."""

    code = "api"

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code
