"""The CommandRunner protocol, its values and its errors.

    RunnerError
    ├── SandboxFailed         this machine could not sandbox the command
    ├── ClusterUnreachable    the cluster's API does not respond
    ├── ClusterRefused        the cluster rejects the Job
    ├── ClusterFull           a quota is used up, for now
    ├── ImageUnavailable      the image cannot be pulled, for now
    ├── ImageInvalid          the image's name is invalid
    ├── NotScheduled          no node had capacity in time
    ├── Evicted               the cluster ended the pod
    ├── JobVanished           the Job or its pod was deleted
    └── OutcomeUnknown        the command was started, but its outcome is lost

A command that runs and fails is none of these: it has an exit code.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from coatcheck.errors import CoatcheckError

STDOUT_BYTES = 128 * 1024
STDERR_BYTES = 64 * 1024

# The exit code of `timeout(1)`.
TIMED_OUT = 124

# Gets the text of stdout as it arrives: up to the cap, each piece once, in order.
OnOutput = Callable[[str], Awaitable[None]]


def job_name(tenant: str, job_id: str) -> str:
    """Return the name of an execution's Job, always the same one, so that a Job is found again.

    It is derived from the tenant and the job's id, which a caller cannot choose, so it never names
    a Job of another tenant. It is a DNS label of at most 63 characters for any input, and a digest
    keeps similar ids apart.
    """
    readable = re.sub(r"[^a-z0-9]+", "-", job_id.lower()).strip("-")[:40].strip("-")
    fingerprint = hashlib.sha256(json.dumps([tenant, job_id]).encode()).hexdigest()[:16]
    return "-".join(filter(None, ("exec", readable, fingerprint)))


@dataclass(frozen=True)
class Command:
    """A command to run, without a shell: the first part is the program, the rest its arguments."""

    argv: tuple[str, ...]
    name: str  # a second run under the same name finds the Job of the first
    seconds: float | None = None  # None: the runner's default
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Called when the run is cancelled: whether another worker will take over the Job in the
    # cluster. A command on this machine ends with its call.
    is_taken_over: Callable[[], bool] = field(default=lambda: False, repr=False)
    # Whether the command is known to have been started in a cluster: then its Job is found, or the
    # run fails.
    started: bool = False
    # Called once the command has been started in a cluster.
    on_started: Callable[[], Awaitable[None]] | None = field(default=None, repr=False)
    # Called once its pod is seen to run, or to have run.
    on_running: Callable[[], Awaitable[None]] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class CommandResult:
    """The outcome of a command. Times are milliseconds since the epoch.

    Bytes that are not UTF-8, and NUL, which databases reject, become U+FFFD. `truncated` names the
    streams that were cut at their cap; their text then ends in a line that says so.
    """

    exit_code: int  # 128+n if signal n ended it, 124 after a timeout
    stdout: str = field(repr=False)
    stderr: str = field(repr=False)
    started_at: int
    finished_at: int
    timed_out: bool = False
    truncated: tuple[str, ...] = ()


class CommandRunner(Protocol):
    """Runs commands, each until it has ended."""

    async def run(self, command: Command, *, on_output: OnOutput | None = None) -> CommandResult:
        """Run a command and return its outcome; raise RunnerError if it could not run.

        Cancelling this call ends the command with all processes it has started: on this machine
        before it returns, in a cluster as soon as the cluster acts.
        """
        ...


class RunnerError(CoatcheckError):
    """The command could not be run, or its outcome is unknown."""

    code = "runner"
    retryable: ClassVar[bool] = False  # whether a later attempt may succeed


class SandboxFailed(RunnerError):
    """This machine could not sandbox the command; it has not run."""

    code = "sandbox-failed"


class ClusterUnreachable(RunnerError):
    """The cluster's API does not respond; a started Job may still be running."""

    code = "cluster-unreachable"
    retryable = True


class ClusterRefused(RunnerError):
    """The cluster rejects the Job."""

    code = "cluster-refused"


class ClusterFull(RunnerError):
    """A quota of the cluster is used up."""

    code = "cluster-full"
    retryable = True


class ImageUnavailable(RunnerError):
    """The image could not be pulled."""

    code = "image-unavailable"
    retryable = True


class ImageInvalid(RunnerError):
    """The image's name is invalid."""

    code = "image-invalid"


class NotScheduled(RunnerError):
    """No node of the cluster had capacity in time."""

    code = "not-scheduled"
    retryable = True


class Evicted(RunnerError):
    """The cluster ended the pod."""

    code = "evicted"
    retryable = True


class OutcomeUnknown(RunnerError):
    """The command was started, but the cluster has deleted everything that shows its outcome."""

    code = "outcome-unknown"


class JobVanished(RunnerError):
    """The Job or its pod was deleted while it ran."""

    code = "job-vanished"
    retryable = True
