"""The kind of job behind an execution: one command, run once.

A command may do anything once, and nobody knows what it did before its worker died; so on this
machine it is not run again. In a cluster it goes on without us: the worker that comes next finds
what was started under the execution's name, and waits for that.

How it went is the job's result. A command that failed or took too long fails its job, and what it
said stays with the job as an artifact.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pydantic import BaseModel, ConfigDict

from coatcheck.errors import Fail
from coatcheck.surfaces.tasks.running import Command, CommandPolicy, Ran, Runner, RunnerError
from coatcheck.surfaces.tasks.words import RAN
from coatcheck.worker.context import Context

# The codes of failures that are the command's own.
EXITED, TIMED_OUT, REFUSED = "exited", "timeout", "refused"
_SHOWN = 200


class Execution(BaseModel):
    """What is run, for whom, and for how long at most."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"argv": ["uname", "-a"], "execution_id": "first", "seconds": 10}]
        }
    )

    argv: list[str]
    execution_id: str
    task_id: str | None = None
    seconds: float


class Outcome(BaseModel):
    """How it went."""

    exit_code: int
    stdout: str
    stderr: str
    started_at: int
    finished_at: int
    timed_out: bool = False
    truncated: list[str] = []


Handler = Callable[[Context, Execution], Awaitable[Outcome]]


def handler_with(runner: Callable[[], Runner], policy: CommandPolicy) -> Handler:
    """Make the handler that runs commands; the runner is made when the first is to be run."""
    made: list[Runner] = []

    async def run_command(ctx: Context, execution: Execution) -> Outcome:
        """Run a command, and say what it says while it does."""
        refusal = policy.check(execution.argv)
        if refusal is not None:
            raise Fail(REFUSED, refusal.message)
        if not made:
            made.append(runner())
        command = Command(
            tuple(execution.argv),
            execution.execution_id,
            execution.seconds,
            is_taken_over=lambda: ctx.goes_on_elsewhere,
        )
        try:
            ran = await made[0].run(command, on_output=lambda text: _tell(ctx, text))
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


async def _tell(ctx: Context, text: str) -> None:
    await ctx.emit({"stdout": text})


def _outcome(ran: Ran) -> Outcome:
    return Outcome(
        exit_code=ran.exit_code,
        stdout=ran.stdout,
        stderr=ran.stderr,
        started_at=ran.started_at,
        finished_at=ran.finished_at,
        timed_out=ran.timed_out,
        truncated=list(ran.truncated),
    )


def _why(ran: Ran) -> str:
    [last] = ran.stderr.strip().splitlines()[-1:] or [""]
    return f"exit code {ran.exit_code}" + (f": {last[:_SHOWN]}" if last else "")
