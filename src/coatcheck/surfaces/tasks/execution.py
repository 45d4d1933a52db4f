"""The kind of job behind an execution: one command, run once.

A command may do anything once, and nobody knows what it did before its worker died; so on this
machine it is not run again, nor is one that a stopping worker has interrupted. In a cluster it goes
on without us: the worker that comes next finds what was started under the execution's name, and
waits for that (`surfaces/tasks/run_log.py` says what becomes of it where it finds nothing).

How it went is the job's result. A command that failed or took too long fails its job, and what it
said stays with the job as an artifact.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field, field_validator

from coatcheck.errors import Fail
from coatcheck.surfaces.tasks.constants import RAN
from coatcheck.surfaces.tasks.run_log import RunLog
from coatcheck.surfaces.tasks.runners import (
    Command,
    CommandPolicy,
    CommandResult,
    CommandRunner,
    InvalidCommand,
    RunnerError,
    check_arguments,
)
from coatcheck.surfaces.tasks.runners.names import job_name
from coatcheck.surfaces.tasks.runners.runner import ClusterUnreachable
from coatcheck.worker.steps.context import Context

# The codes of failures that are the command's own.
EXITED, TIMED_OUT, REFUSED = "exited", "timeout", "refused"
_SHOWN = 200


class CommandExecution(BaseModel):
    """What is run, for whom, and for how long at most."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"argv": ["uname", "-a"], "seconds": 10}]}
    )

    # The program, which cannot be blank, and its arguments: `check_arguments` looks at the rest.
    argv: list[str] = Field(
        json_schema_extra={
            "minItems": 1,
            "prefixItems": [{"type": "string", "pattern": r"\S"}],
        }
    )
    task_id: str | None = None
    seconds: float = Field(gt=0, allow_inf_nan=False)

    @field_validator("argv")
    @classmethod
    def _can_be_run(cls, argv: list[str]) -> list[str]:
        try:
            check_arguments(argv)
        except InvalidCommand as error:
            raise ValueError(str(error)) from None
        return argv


class CommandOutcome(BaseModel):
    """How it went."""

    exit_code: int
    stdout: str
    stderr: str
    started_at: int
    finished_at: int
    timed_out: bool = False
    truncated: list[str] = []


Handler = Callable[[Context, CommandExecution], Awaitable[CommandOutcome]]


def handler_with(
    runner: Callable[[], CommandRunner], policy: CommandPolicy, *, elsewhere: bool = False
) -> Handler:
    """Make the handler that runs commands; the runner is made when the first is to be run. Say
    whether it runs them `elsewhere`, where they go on without their worker.
    """
    made: list[CommandRunner] = []

    async def run_command(ctx: Context, execution: CommandExecution) -> CommandOutcome:
        """Run a command, and say what it says while it does."""
        refusal = policy.check(execution.argv)
        if refusal is not None:
            raise Fail(REFUSED, refusal.message)
        if not made:
            made.append(runner())
        command = Command(
            tuple(execution.argv),
            job_name(ctx.tenant, ctx.job_id),
            execution.seconds,
        )
        run = _run_elsewhere if elsewhere else _run
        try:
            ran = await run(ctx, made[0], command)
        except RunnerError as error:
            if error.retryable:
                raise
            raise Fail(error.code, str(error)) from error
        outcome = _outcome(ran)
        if not ran.timed_out and not ran.exit_code:
            return outcome
        await ctx.artifact(RAN, outcome.model_dump_json().encode(), "application/json")
        if ran.timed_out:
            raise Fail(TIMED_OUT, f"it was ended after {execution.seconds:g} seconds")
        raise Fail(EXITED, _why(ran))

    return run_command


async def _run(ctx: Context, runner: CommandRunner, command: Command) -> CommandResult:
    return await runner.run(command, on_output=lambda text: _tell(ctx, text))


async def _run_elsewhere(ctx: Context, runner: CommandRunner, command: Command) -> CommandResult:
    notes = RunLog(ctx)
    command = replace(
        command,
        begun=await notes.read(),
        on_begun=notes.begun,
        on_running=notes.running,
        is_taken_over=lambda: ctx.continues_elsewhere or notes.refused,
    )
    try:
        return await _run(ctx, runner, command)
    except ClusterUnreachable:
        raise  # what was started may be there still
    except RunnerError as error:
        if error.retryable:
            await notes.given_up()
        raise


async def _tell(ctx: Context, text: str) -> None:
    await ctx.emit({"stdout": text})


def _outcome(ran: CommandResult) -> CommandOutcome:
    return CommandOutcome(
        exit_code=ran.exit_code,
        stdout=ran.stdout,
        stderr=ran.stderr,
        started_at=ran.started_at,
        finished_at=ran.finished_at,
        timed_out=ran.timed_out,
        truncated=list(ran.truncated),
    )


def _why(ran: CommandResult) -> str:
    [last] = ran.stderr.strip().splitlines()[-1:] or [""]
    return f"exit code {ran.exit_code}" + (f": {last[:_SHOWN]}" if last else "")
