"""The kind of job behind an execution: one command, run once.

A command may have any effect, and nobody knows what it did before its worker died. On this machine
it is therefore not run again, and neither is one that a stopping worker has interrupted. In a
cluster a command continues without its worker: the next worker finds the Job under the execution's
name and waits for it (`run_log.py` covers the case that the Job is gone).

The outcome is the job's result. A command that fails or times out fails its job, and its output is
stored with the job as an artifact.
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
from coatcheck.surfaces.tasks.runners.runner import ClusterUnreachable, job_name
from coatcheck.worker.steps.context import Context

# Error codes for failures of the command itself.
EXITED, TIMED_OUT, REFUSED = "exited", "timeout", "refused"
_MAX_EXCERPT = 200


class CommandExecution(BaseModel):
    """A command, its task and its time limit."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"argv": ["uname", "-a"], "seconds": 10}]}
    )

    # The program must not be blank; `check_arguments` checks the rest.
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
    def _check_argv(cls, argv: list[str]) -> list[str]:
        try:
            check_arguments(argv)
        except InvalidCommand as error:
            raise ValueError(str(error)) from None
        return argv


class CommandOutcome(BaseModel):
    """The outcome of a command."""

    exit_code: int
    stdout: str
    stderr: str
    started_at: int
    finished_at: int
    timed_out: bool = False
    truncated: list[str] = []


Handler = Callable[[Context, CommandExecution], Awaitable[CommandOutcome]]


def make_handler(
    runner: Callable[[], CommandRunner], policy: CommandPolicy, *, remote: bool = False
) -> Handler:
    """Create the handler that runs commands.

    The runner is created with the first command. `remote` means that commands run outside this
    machine, where they continue without their worker.
    """
    runners: list[CommandRunner] = []

    async def run_command(ctx: Context, execution: CommandExecution) -> CommandOutcome:
        """Run a command, and emit its output while it runs."""
        denial = policy.check(execution.argv)
        if denial is not None:
            raise Fail(REFUSED, denial.message)
        if not runners:
            runners.append(runner())
        command = Command(
            tuple(execution.argv),
            job_name(ctx.tenant, ctx.job_id),
            execution.seconds,
        )
        run = _run_remote if remote else _run
        try:
            result = await run(ctx, runners[0], command)
        except RunnerError as error:
            if error.retryable:
                raise
            raise Fail(error.code, str(error)) from error
        outcome = _outcome(result)
        if not result.timed_out and not result.exit_code:
            return outcome
        await ctx.artifact(RAN, outcome.model_dump_json().encode(), "application/json")
        if result.timed_out:
            raise Fail(TIMED_OUT, f"the command was ended after {execution.seconds:g} seconds")
        raise Fail(EXITED, _exit_message(result))

    return run_command


async def _run(ctx: Context, runner: CommandRunner, command: Command) -> CommandResult:
    return await runner.run(command, on_output=lambda text: _emit_stdout(ctx, text))


async def _run_remote(ctx: Context, runner: CommandRunner, command: Command) -> CommandResult:
    run_log = RunLog(ctx)
    command = replace(
        command,
        started=await run_log.read(),
        on_started=run_log.started,
        on_running=run_log.running,
        is_taken_over=lambda: ctx.continues_elsewhere or run_log.lease_lost,
    )
    try:
        return await _run(ctx, runner, command)
    except ClusterUnreachable:
        raise  # the Job may still be running
    except RunnerError as error:
        if error.retryable:
            await run_log.abandoned()
        raise


async def _emit_stdout(ctx: Context, text: str) -> None:
    await ctx.emit({"stdout": text})


def _outcome(result: CommandResult) -> CommandOutcome:
    return CommandOutcome(
        exit_code=result.exit_code,
        stdout=result.stdout,
        stderr=result.stderr,
        started_at=result.started_at,
        finished_at=result.finished_at,
        timed_out=result.timed_out,
        truncated=list(result.truncated),
    )


def _exit_message(result: CommandResult) -> str:
    [last] = result.stderr.strip().splitlines()[-1:] or [""]
    return f"exit code {result.exit_code}" + (f": {last[:_MAX_EXCERPT]}" if last else "")
