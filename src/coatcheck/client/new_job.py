"""NewJob: a job before it is submitted, and its JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

from pydantic_core import PydanticSerializationError, to_jsonable_python

from coatcheck.errors import InvalidPayload


class JobOptions(TypedDict, total=False):
    """The options of one job; the kind's declaration supplies the others."""

    queue: str | None
    priority: int
    labels: Mapping[str, str] | None
    run_at: datetime | None
    deadline_s: float | None
    max_attempts: int | None
    webhook: str | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to submit: its kind, its input and its options."""

    kind: str
    input: Any = None
    queue: str | None = None
    priority: int = 0
    labels: Mapping[str, str] | None = None
    run_at: datetime | None = None
    deadline_s: float | None = None
    max_attempts: int | None = None
    # The URL to call when the job finishes, or {"url": ..., "events": [...]}.
    webhook: str | Mapping[str, Any] | None = None


def write_job(job: NewJob) -> bytes:
    """Serialize a job for `POST /v1/jobs`."""
    return _dump(_view(job))


def write_batch(jobs: Sequence[NewJob]) -> bytes:
    """Serialize jobs for `POST /v1/batches`."""
    return _dump({"jobs": [_view(job) for job in jobs]})


def write_schedule(job: NewJob, timing: Mapping[str, Any]) -> bytes:
    """Serialize a job and its timing for `PUT /v1/schedules/{schedule}`."""
    given = {name: value for name, value in timing.items() if value is not None}
    return _dump({**_view(job), **given})


def write_json(value: Any) -> bytes:
    """Serialize any value that pydantic can turn into JSON."""
    try:
        return _dump(to_jsonable_python(value))
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise _not_json("this value", error) from error


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
        raise _not_json("this value", error) from error


def _not_json(what: str, error: Exception) -> InvalidPayload:
    return InvalidPayload(f"{what} cannot be written as JSON: {error}", [("/input", str(error))])
