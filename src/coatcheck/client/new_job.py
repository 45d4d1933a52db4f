"""NewJob: a job before it is handed in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

from pydantic_core import PydanticSerializationError, to_jsonable_python

from coatcheck.errors import InvalidPayload


class JobOptions(TypedDict, total=False):
    """How a job should be treated; what is left out is as its kind declares it."""

    queue: str | None
    priority: int
    labels: Mapping[str, str] | None
    run_at: datetime | None
    deadline_s: float | None
    max_attempts: int | None
    webhook: str | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to hand in: its kind, its input, and how it should be treated."""

    kind: str
    input: Any = None
    queue: str | None = None
    priority: int = 0
    labels: Mapping[str, str] | None = None
    run_at: datetime | None = None
    deadline_s: float | None = None
    max_attempts: int | None = None
    # Whom to call when it has ended: a URL, or {"url": ..., "events": [...]}.
    webhook: str | Mapping[str, Any] | None = None


def write_job(job: NewJob) -> bytes:
    """Write a job as `POST /v1/jobs` takes it."""
    return _dump(_view(job))


def write_batch(jobs: Sequence[NewJob]) -> bytes:
    """Write jobs as `POST /v1/batches` takes them."""
    return _dump({"jobs": [_view(job) for job in jobs]})


def write_schedule(job: NewJob, timing: Mapping[str, Any]) -> bytes:
    """Write a job, and when it comes back, as `PUT /v1/schedules/{schedule}` takes it."""
    return _dump({**_view(job), **{name: of for name, of in timing.items() if of is not None}})


def write_json(value: Any) -> bytes:
    """Write any value that JSON can hold, or that pydantic can turn into such."""
    try:
        return _dump(to_jsonable_python(value))
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise _not_json("this", error) from error


def _view(job: NewJob) -> dict[str, Any]:
    optional = {
        "queue": job.queue,
        "priority": job.priority or None,
        "labels": None if job.labels is None else dict(job.labels),
        "run_at": None if job.run_at is None else job.run_at.isoformat(),
        "deadline_s": job.deadline_s,
        "max_attempts": job.max_attempts,
        "webhook": {"url": job.webhook} if isinstance(job.webhook, str) else job.webhook,
    }
    given = {name: value for name, value in optional.items() if value is not None}
    return {"kind": job.kind, "input": _jsonable(job), **given}


def _jsonable(job: NewJob) -> Any:
    try:
        return to_jsonable_python(job.input)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise _not_json(f"the input for kind {job.kind!r}", error) from error


def _dump(value: Any) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise _not_json("this", error) from error


def _not_json(what: str, error: Exception) -> InvalidPayload:
    return InvalidPayload(f"{what} cannot be written as JSON: {error}", [("/input", str(error))])
