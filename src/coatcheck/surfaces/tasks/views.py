"""JSON views of an execution."""

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
from coatcheck.surfaces.tasks.runners.runner import job_name

TASK = "task"  # the label with the task of an execution
PENDING = "PENDING"
_OUTPUT = ("exitCode", "stdout", "stderr")


async def is_pending(engine: Engine, job: Job, *, in_cluster: bool) -> bool:
    """Report whether a command has not started yet.

    In a cluster, a claimed job has not started until its pod runs.
    """
    if job.state.is_terminal:
        return False
    if job.started_at is None:
        return True
    return in_cluster and not has_run(await engine.store.jobs.list_steps(job.tenant, job.id))


def status_of(job: Job, *, pending: bool) -> str:
    """Return a job's status in the surface's terms."""
    if pending:
        return PENDING
    match job.state:
        case State.SUCCEEDED:
            return "SUCCEEDED"
        case State.FAILED | State.CANCELLED:
            timed_out = job.error is not None and job.error.code == TIMED_OUT
            return "TIMEOUT" if timed_out else "FAILED"
    return "RUNNING"


def path_of(job: Job) -> str:
    """Return the path of an execution."""
    return f"/api/tasks/{job.labels[TASK]}/executions/{job.public_id}"


def accepted_view(job: Job, *, pending: bool) -> dict[str, Any]:
    """Return the response for a caller who does not wait."""
    return {
        **_head(job, pending=pending),
        "links": {"self": path_of(job), "task": f"/api/tasks/{job.labels[TASK]}"},
    }


def execution_view(
    job: Job, outcome: CommandOutcome | None, now: int, *, pending: bool
) -> dict[str, Any]:
    """Return an execution as JSON: the elapsed time while it runs, then its outcome."""
    view = _head(job, pending=pending)
    if not job.state.is_terminal:
        return {**view, "elapsedMs": max(0, now - _started_at(job, pending=pending))}
    return {**view, **_outcome_fields(job, outcome), "completedAt": to_rfc3339(_finished_at(job))}


def summary_view(job: Job, now: int, *, pending: bool) -> dict[str, Any]:
    """Return an execution without its exit code and output, for lists of tasks."""
    view = execution_view(job, None, now, pending=pending)
    return {name: value for name, value in view.items() if name not in _OUTPUT}


def result_view(job: Job, outcome: CommandOutcome | None) -> dict[str, Any]:
    """Return the outcome of an execution to a caller who waited."""
    return {
        "taskId": job.labels[TASK],
        "executionId": job.public_id,
        **_outcome_fields(job, outcome),
        "timestamp": to_rfc3339(_finished_at(job)),
    }


async def outcome_of(engine: Engine, job: Job) -> CommandOutcome | None:
    """Return the outcome of a command; None if it has not finished, or is unknown."""
    if job.state is State.SUCCEEDED:
        return CommandOutcome.model_validate_json(job.result or "null")
    artifact = next((each for each in job.artifacts if each.name == RAN), None)
    return None if artifact is None else await _read(engine, artifact)


async def _read(engine: Engine, artifact: Artifact) -> CommandOutcome:
    pieces = await engine.payload_store.stream(artifact, 0, artifact.size)
    return CommandOutcome.model_validate_json(b"".join([piece async for piece in pieces]))


def _head(job: Job, *, pending: bool) -> dict[str, Any]:
    return {
        "taskId": job.labels[TASK],
        "executionId": job.public_id,
        "status": status_of(job, pending=pending),
        "jobName": job_name(job.tenant, job.id),
        "startedAt": to_rfc3339(_started_at(job, pending=pending)),
    }


def _outcome_fields(job: Job, outcome: CommandOutcome | None) -> dict[str, Any]:
    error = job.error.message if job.error is not None else "cancelled"
    return {
        "exitCode": None if outcome is None else outcome.exit_code,
        "stdout": "" if outcome is None else outcome.stdout,
        "stderr": error if outcome is None else outcome.stderr,
        "durationMs": _finished_at(job) - _started_at(job),
    }


def _started_at(job: Job, *, pending: bool = False) -> int:
    # Until it runs, the creation time is shown.
    return job.created_at if pending or job.started_at is None else job.started_at


def _finished_at(job: Job) -> int:
    assert job.finished_at is not None, "a finished job has a finish time"
    return job.finished_at
