"""The base of both job handles, and the mapping from a finished job to a result or an exception."""

from __future__ import annotations

import json
from typing import Any, Generic

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from typing_extensions import TypeVar  # TypeVar defaults are new in Python 3.13

from coatcheck.errors import InvalidInput, JobCancelled, JobFailed, TimedOut, UnexpectedResult

# How long to wait for a result; the job continues after a timeout.
DEFAULT_TIMEOUT_S = 900.0
UNTYPED: TypeAdapter[Any] = TypeAdapter(Any)

# The type of the job's result. Without a `result_type` it is the parsed JSON.
ResultT = TypeVar("ResultT", default=Any)


class Handle(Generic[ResultT]):
    """A submitted job: its `id`, and `job`, the last document read from the server."""

    def __init__(self, job: dict[str, Any], result_type: TypeAdapter[Any]) -> None:
        self.id: str = job["id"]
        self.job = job
        self._result_type = result_type

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.job['kind']} {self.job['state']}>"

    def _update(self, job: dict[str, Any]) -> dict[str, Any]:
        self.job = job
        return job

    def _outcome(self, job: dict[str, Any], timeout: float) -> ResultT:
        outcome: ResultT = outcome_of(self._update(job), timeout, self._result_type)
        return outcome


def result_adapter(result_type: Any) -> TypeAdapter[Any]:
    """Return the validator for a result type; raise InvalidInput if pydantic cannot make one."""
    if result_type is None:
        return UNTYPED
    try:
        return TypeAdapter(result_type)
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise InvalidInput(f"{result_type!r} cannot be a result type: {error}") from error


def outcome_of(job: dict[str, Any], timeout: float, result_type: TypeAdapter[Any]) -> Any:
    """Return a finished job's result; raise JobFailed, JobCancelled or TimedOut otherwise."""
    job_id = job["id"]
    match job["state"]:
        case "succeeded":
            return _validate(job_id, job["result"], result_type)
        case "failed":
            error = job["error"] or {"code": "unknown", "message": "no error was recorded"}
            raise JobFailed(
                job_id, error["code"], error["message"], job["reason"], error.get("detail")
            )
        case "cancelled":
            raise JobCancelled(job_id, f"job {job_id} was cancelled")
    raise TimedOut(
        job_id, f"job {job_id} is still {job['state']} after {timeout:g} s; it continues"
    )


def _validate(job_id: str, result: Any, result_type: TypeAdapter[Any]) -> Any:
    if result_type is UNTYPED:
        return result
    try:
        # Validated as JSON, so that a list can become a tuple and a string a date.
        return result_type.validate_json(json.dumps(result))
    except ValidationError as error:
        problems = [
            ("".join(f"/{part}" for part in item["loc"]), item["msg"])
            for item in error.errors(include_url=False, include_input=False)
        ]
        where = "; ".join(f"{pointer or '/'}: {detail}" for pointer, detail in problems[:3])
        message = f"job {job_id} succeeded, but its result does not match result_type: {where}"
        raise UnexpectedResult(job_id, message, problems, result) from None
