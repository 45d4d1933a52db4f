"""What runs a command: one small type, whoever does it.

    RunnerError
    ├── SandboxFailed         this machine could not confine it
    ├── ClusterUnreachable    the cluster's API does not answer
    ├── ClusterRefused        it answers, and will not take the Job
    ├── ClusterFull           a quota is used up, for now
    ├── ImageUnavailable      the image cannot be had, for now
    ├── ImageInvalid          the image's name is none
    ├── NotScheduled          no machine has had room for it in time
    ├── Evicted               the cluster took its machine away
    ├── JobVanished           somebody has deleted the Job or its pod
    └── OutcomeUnknown        it was started before, and nothing is left to tell how it ended

A command that runs and fails is none of these: it has an exit code.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from coatcheck.errors import CoatcheckError

STDOUT_BYTES = 128 * 1024
STDERR_BYTES = 64 * 1024

# What `timeout(1)` says of a command that took too long.
TIMED_OUT = 124

# Takes the text of stdout as it comes: up to the cap, each piece once, in order.
OnOutput = Callable[[str], Awaitable[None]]


@dataclass(frozen=True)
class Command:
    """What to run. No shell reads it: the first is the program, the others are its arguments."""

    argv: tuple[str, ...]
    name: str  # who runs it again under the same name finds what the first run has started
    seconds: float | None = None  # None: as long as the runner gives to those who do not say
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Asked when the call that runs it is cancelled: whether somebody else will take over what goes
    # on in a cluster. What runs on this machine ends with its call.
    is_taken_over: Callable[[], bool] = field(default=lambda: False, repr=False)
    # Whether it is known to have been started in a cluster: then it is found there, or not run.
    begun: bool = False
    # Called once it has been started there.
    on_begun: Callable[[], Awaitable[None]] | None = field(default=None, repr=False)
    # Called once its pod is seen to run, or to have run.
    on_running: Callable[[], Awaitable[None]] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class CommandResult:
    """How it went. Times are milliseconds since the epoch.

    Output that is no UTF-8 holds U+FFFD in its place, and so does NUL, which no database takes.
    `truncated` names the streams that were cut at their cap; their text then ends in a line that
    says so.
    """

    exit_code: int  # 128+n when signal n ended it, 124 when it took too long
    stdout: str = field(repr=False)
    stderr: str = field(repr=False)
    started_at: int
    finished_at: int
    timed_out: bool = False
    truncated: tuple[str, ...] = ()


class CommandRunner(Protocol):
    """Runs commands, each until it has ended."""

    async def run(self, command: Command, *, on_output: OnOutput | None = None) -> CommandResult:
        """Run a command and say how it went; raises RunnerError.

        Cancelling this call ends the command with all the processes it has started: here before
        it returns, in a cluster as soon as the cluster gets to it.
        """
        ...


class RunnerError(CoatcheckError):
    """The command could not be run, or nobody knows how it ended."""

    code = "runner"
    retryable: ClassVar[bool] = False  # whether the same may well work later


class SandboxFailed(RunnerError):
    """This machine could not confine the command; it has not run."""

    code = "sandbox-failed"


class ClusterUnreachable(RunnerError):
    """The cluster's API does not answer; whatever was started there may be running still."""

    code = "cluster-unreachable"
    retryable = True


class ClusterRefused(RunnerError):
    """The cluster will not take the Job as it is."""

    code = "cluster-refused"


class ClusterFull(RunnerError):
    """A quota of the cluster's is used up."""

    code = "cluster-full"
    retryable = True


class ImageUnavailable(RunnerError):
    """The image could not be pulled."""

    code = "image-unavailable"
    retryable = True


class ImageInvalid(RunnerError):
    """The image's name is none."""

    code = "image-invalid"


class NotScheduled(RunnerError):
    """No machine of the cluster had room for it in time."""

    code = "not-scheduled"
    retryable = True


class Evicted(RunnerError):
    """The cluster took the machine away under it."""

    code = "evicted"
    retryable = True


class OutcomeUnknown(RunnerError):
    """It was started, and the cluster has cleared away what could tell how it ended."""

    code = "outcome-unknown"


class JobVanished(RunnerError):
    """Somebody has deleted the Job or its pod while it ran."""

    code = "job-vanished"
    retryable = True
