"""A job's end as a value or an exception, and its result as the type that was asked for."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from coatcheck.errors import InvalidInput, JobCancelled, JobFailed, TimedOut, UnexpectedResult

UNTYPED: TypeAdapter[Any] = TypeAdapter(Any)


def read_type(result_type: Any) -> TypeAdapter[Any]:
    """Return what checks results against a type; raises before anything is submitted."""
    if result_type is None:
        return UNTYPED
    try:
        return TypeAdapter(result_type)
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise InvalidInput(f"{result_type!r} cannot be the type of a result: {error}") from error


def outcome_of(job: dict[str, Any], timeout: float, result_type: TypeAdapter[Any]) -> Any:
    """Return the result of a job that was waited for, or raise how else it stands."""
    job_id = job["id"]
    match job["state"]:
        case "succeeded":
            return _typed(job_id, job["result"], result_type)
        case "failed":
            error = job["error"] or {"code": "unknown", "message": "no error was kept"}
            raise JobFailed(
                job_id, error["code"], error["message"], job["reason"], error.get("detail")
            )
        case "cancelled":
            raise JobCancelled(job_id, f"job {job_id} was cancelled")
    raise TimedOut(job_id, f"job {job_id} is still {job['state']} after {timeout:g} s; it goes on")


def _typed(job_id: str, result: Any, result_type: TypeAdapter[Any]) -> Any:
    if result_type is UNTYPED:
        return result
    try:
        # As JSON, which it was: a list may be a tuple, a text may be a date.
        return result_type.validate_json(json.dumps(result))
    except ValidationError as error:
        problems = [
            ("".join(f"/{part}" for part in item["loc"]), item["msg"])
            for item in error.errors(include_url=False, include_input=False)
        ]
        where = "; ".join(f"{place or '/'}: {detail}" for place, detail in problems[:3])
        message = f"job {job_id} succeeded, but its result is not of the type asked for: {where}"
        raise UnexpectedResult(job_id, message, problems, result) from None
