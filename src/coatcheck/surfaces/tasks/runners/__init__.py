"""Run one command somewhere and report its outcome; no HTTP, no jobs.

A runner takes a `Command` and returns a `CommandResult`, or raises a `RunnerError` if the command
could not be run. There are two: `LocalRunner` (this machine, in the sandbox) and `KubernetesRunner`
(a Job in a cluster). `CommandPolicy` decides which commands may be run; `read_command_line` splits
a typed command line into an argv.

`kubernetes/` needs the extra `kubernetes`, so it is imported on demand.
"""

from coatcheck.surfaces.tasks.runners.command_line import (
    InvalidCommand,
    check_arguments,
    read_command_line,
)
from coatcheck.surfaces.tasks.runners.local import LocalRunner
from coatcheck.surfaces.tasks.runners.policy import CommandPolicy, PolicyDenial
from coatcheck.surfaces.tasks.runners.runner import (
    Command,
    CommandResult,
    CommandRunner,
    OnOutput,
    RunnerError,
)

__all__ = [
    "Command",
    "CommandPolicy",
    "CommandResult",
    "CommandRunner",
    "InvalidCommand",
    "LocalRunner",
    "OnOutput",
    "PolicyDenial",
    "RunnerError",
    "check_arguments",
    "read_command_line",
]
