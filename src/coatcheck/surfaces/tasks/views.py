"""An execution in the words of its document."""

from __future__ import annotations

from typing import Any

from coatcheck.clock import to_rfc3339
from coatcheck.engine.engine import Engine
from coatcheck.model.artifact import Artifact
from coatcheck.model.job import Job
from coatcheck.model.state import State
from coatcheck.surfaces.tasks.constants import RAN
from coatcheck.surfaces.tasks.execution import TIMED_OUT, CommandOutcome
from coatcheck.surfaces.tasks.run_log import has_run
from coatcheck.surfaces.tasks.runners.names import job_name

TASK = "task"  # the label that says whose execution a job is
PENDING = "PENDING"
_OUTPUT = ("exitCode", "stdout", "stderr")


async def is_pending(engine: Engine, job: Job, *, in_cluster: bool) -> bool:
    """Tell whether a command has not begun. In a cluster, a job that was claimed has not begun
    until its pod runs.
    """
    if job.state.is_terminal:
        return False
    if job.started_at is None:
        return True
    return in_cluster and not has_run(await engine.store.jobs.list_steps(job.tenant, job.id))


def status_of(job: Job, *, pending: bool) -> str:
    """Return a job's state as the document names it."""
    if pending:
        return PENDING
    match job.state:
        case State.SUCCEEDED:
            return "SUCCEEDED"
        case State.FAILED | State.CANCELLED:
            late = job.error is not None and job.error.code == TIMED_OUT
            return "TIMEOUT" if late else "FAILED"
    return "RUNNING"


def path_of(job: Job) -> str:
    """Return where an execution is shown."""
    return f"/api/tasks/{job.labels[TASK]}/executions/{job.public_id}"


def accepted_view(job: Job, *, pending: bool) -> dict[str, Any]:
    """Write what a caller gets who does not wait."""
    return {
        **_head(job, pending=pending),
        "links": {"self": path_of(job), "task": f"/api/tasks/{job.labels[TASK]}"},
    }


def execution_view(
    job: Job, outcome: CommandOutcome | None, now: int, *, pending: bool
) -> dict[str, Any]:
    """Write an execution: while it runs how long it has, then how it went."""
    said = _head(job, pending=pending)
    if not job.state.is_terminal:
        return {**said, "elapsedMs": max(0, now - _started(job, pending=pending))}
    return {**said, **_how_it_went(job, outcome), "completedAt": to_rfc3339(_ended(job))}


def summary_view(job: Job, now: int, *, pending: bool) -> dict[str, Any]:
    """Write an execution without its exit code and output, for lists of tasks."""
    said = execution_view(job, None, now, pending=pending)
    return {name: value for name, value in said.items() if name not in _OUTPUT}


def result_view(job: Job, outcome: CommandOutcome | None) -> dict[str, Any]:
    """Write how an execution went that was waited for."""
    return {
        "taskId": job.labels[TASK],
        "executionId": job.public_id,
        **_how_it_went(job, outcome),
        "timestamp": to_rfc3339(_ended(job)),
    }


async def outcome_of(engine: Engine, job: Job) -> CommandOutcome | None:
    """Read how a command went; None where it has not, or nobody knows."""
    if job.state is State.SUCCEEDED:
        return CommandOutcome.model_validate_json(job.result or "null")
    kept = next((each for each in job.artifacts if each.name == RAN), None)
    return None if kept is None else await _read(engine, kept)


async def _read(engine: Engine, kept: Artifact) -> CommandOutcome:
    pieces = await engine.payload_store.stream(kept, 0, kept.size)
    return CommandOutcome.model_validate_json(b"".join([piece async for piece in pieces]))


def _head(job: Job, *, pending: bool) -> dict[str, Any]:
    return {
        "taskId": job.labels[TASK],
        "executionId": job.public_id,
        "status": status_of(job, pending=pending),
        "jobName": job_name(job.tenant, job.id),
        "startedAt": to_rfc3339(_started(job, pending=pending)),
    }


def _how_it_went(job: Job, outcome: CommandOutcome | None) -> dict[str, Any]:
    said = job.error.message if job.error is not None else "cancelled"
    return {
        "exitCode": None if outcome is None else outcome.exit_code,
        "stdout": "" if outcome is None else outcome.stdout,
        "stderr": said if outcome is None else outcome.stderr,
        "durationMs": _ended(job) - _started(job),
    }


def _started(job: Job, *, pending: bool = False) -> int:
    # Until it runs, the time of its creation stands for it.
    return job.created_at if pending or job.started_at is None else job.started_at


def _ended(job: Job) -> int:
    assert job.finished_at is not None, "what has ended has ended at some time"
    return job.finished_at
