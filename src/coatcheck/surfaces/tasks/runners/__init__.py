"""Running one command somewhere, and saying how it went; no HTTP, no jobs.

A runner takes a `Command` and returns `CommandResult`, or raises a `RunnerError` where the command
could not be run at all. There are two: `LocalRunner` (this machine, in the sandbox) and
`KubernetesRunner` (a Job of its own in a cluster). `CommandPolicy` says which commands may be asked
for; `read_command_line` makes an argv of what a person typed.

`kubernetes.py` needs the extra `kubernetes`, so it is imported by who uses it.
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
