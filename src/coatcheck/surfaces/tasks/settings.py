"""The operator's settings for commands, under the names of the original API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from coatcheck.errors import ConfigurationError
from coatcheck.surfaces.environment import flag, whole_number

RUNNERS = ("local", "kubernetes")


@dataclass(frozen=True)
class TaskSettings:
    """The settings for commands; each field is named after its environment variable."""

    # EXEC_ASYNC: whether an execution responds at once, unless the request says otherwise.
    is_async: bool = False
    # EXEC_RUNNER: where commands run: on the worker's machine or in a Kubernetes cluster.
    runner: str = "local"
    # EXEC_POLICY_FILE: the command policy; empty: the default rules, see runners/policy.py.
    policy_file: Path | None = None
    # K8S_ACTIVE_DEADLINE_SECONDS: time limit of a synchronous command.
    sync_seconds: int = 15
    # EXEC_MAX_POLL_DURATION_SECONDS: time limit of an asynchronous command.
    async_seconds: int = 300
    # EXEC_RETENTION_HOURS: how long a finished execution is kept.
    retention_hours: int = 168

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> TaskSettings:
        """Read the settings; raise ConfigurationError naming the invalid one."""
        runner = environment.get("EXEC_RUNNER", "").strip() or cls.runner
        if runner not in RUNNERS:
            raise ConfigurationError(
                f"EXEC_RUNNER must be one of {', '.join(RUNNERS)}, not {runner!r}"
            )
        policy = environment.get("EXEC_POLICY_FILE", "").strip()
        return cls(
            is_async=flag(environment, "EXEC_ASYNC", default=False),
            runner=runner,
            policy_file=Path(policy) if policy else None,
            sync_seconds=whole_number(
                environment, "K8S_ACTIVE_DEADLINE_SECONDS", cls.sync_seconds, 1
            ),
            async_seconds=whole_number(
                environment, "EXEC_MAX_POLL_DURATION_SECONDS", cls.async_seconds, 1
            ),
            retention_hours=whole_number(
                environment, "EXEC_RETENTION_HOURS", cls.retention_hours, 1
            ),
        )
