"""Batches: many jobs submitted in one request, all or none."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import PROBLEMS_AT_MOST, Submission
from coatcheck.errors import InvalidPayload
from coatcheck.http.auth.caller import admission_of, check_kind, tenant_of
from coatcheck.http.endpoint import JSON
from coatcheck.http.jobs.handlers import read_traceparent
from coatcheck.http.jobs.models import read_submission
from coatcheck.http.request.body import media_type_of, parse_json, read_bounded
from coatcheck.http.request.idempotency import REPLAYED, read_idempotency_key
from coatcheck.logs import correlation_id
from coatcheck.model.access import Scope
from coatcheck.model.job import Job, JobInsert
from coatcheck.model.state import State
from coatcheck.store.base import BATCH_LIMIT

BATCH_BYTES = 16 * 1024 * 1024
NDJSON = "application/x-ndjson"


async def submit_batch(request: Request) -> Response:
    """Submit many jobs. Returns 202 once all of them are durable."""
    engine: Engine = request.app.state.engine
    media_type = media_type_of(request)
    if media_type not in (JSON, NDJSON):
        raise HTTPException(415, f"send a batch as {JSON} or {NDJSON}")
    body = await read_bounded(request, BATCH_BYTES)
    # Parsing megabytes of JSON takes a while: a thread keeps the event loop free.
    entries = await asyncio.to_thread(_parse, body, media_type)
    key = await asyncio.to_thread(read_idempotency_key, request, entries)
    submissions = await asyncio.to_thread(
        _read_all, entries, correlation_id.get(), read_traceparent(request)
    )
    submissions = await asyncio.to_thread(_authorize_all, request, submissions)
    headers = {}
    jobs: list[Job] | list[JobInsert]
    if key is None:
        jobs = await engine.insert_batch(submissions)
    else:
        jobs, replayed = await engine.submit_batch(submissions, key)
        headers = {REPLAYED: "true"} if replayed else {}
    body = await asyncio.to_thread(_batch_json, jobs)
    return Response(body, 202, headers, JSON)


def _authorize_all(request: Request, submissions: list[Submission]) -> list[Submission]:
    for kind in {each.kind for each in submissions}:
        check_kind(request, Scope.WRITE, kind)
    tenant, admission = tenant_of(request), admission_of(request)
    return [each._replace(tenant=tenant, admission=admission) for each in submissions]


def _batch_json(jobs: list[Job] | list[JobInsert]) -> bytes:
    # Job by job: one call for a whole batch would block the event loop through the GIL.
    listed = [
        f'{{"id":"{job.id}","kind":"{job.kind}","state":"{_state(job)}",'
        f'"links":{{"self":"/v1/jobs/{job.id}"}}}}'
        for job in jobs
    ]
    return f'{{"jobs":[{",".join(listed)}]}}'.encode()


def _state(job: Job | JobInsert) -> State:
    return job.state if isinstance(job, Job) else State.QUEUED


def _parse(body: bytes, media_type: str) -> list[Any]:
    if media_type == NDJSON:
        lines = [line for line in body.split(b"\n") if line.strip()]
        _check_count(len(lines))
        return [_parse_line(number, line) for number, line in enumerate(lines, 1)]
    found = parse_json(body)
    if not isinstance(found, dict) or set(found) != {"jobs"} or not isinstance(found["jobs"], list):
        message = 'a batch is {"jobs": [...]}, each job as in POST /v1/jobs'
        raise InvalidPayload(message, [("/jobs", "must be a list of jobs, and the only member")])
    _check_count(len(found["jobs"]))
    return found["jobs"]


def _parse_line(number: int, line: bytes) -> Any:
    try:
        return parse_json(line)
    except HTTPException as error:
        raise HTTPException(error.status_code, f"line {number}: {error.detail}") from None


def _check_count(jobs: int) -> None:
    if not 1 <= jobs <= BATCH_LIMIT:
        message = f"a batch holds 1 to {BATCH_LIMIT:,} jobs, not {jobs:,}"
        raise InvalidPayload(message, [("/jobs", message)])


def _read_all(
    entries: list[Any], correlation: str | None, traceparent: str | None
) -> list[Submission]:
    submissions: list[Submission] = []
    problems: list[tuple[str, str]] = []
    for number, entry in enumerate(entries):
        try:
            submissions.append(
                read_submission(entry, correlation=correlation, traceparent=traceparent)
            )
        except InvalidPayload as error:
            problems += [(f"/jobs/{number}{pointer}", what) for pointer, what in error.problems]
            if len(problems) >= PROBLEMS_AT_MOST:
                break
    if problems:
        raise InvalidPayload(
            f"nothing was submitted: {problems[0][0]}: {problems[0][1]}",
            problems[:PROBLEMS_AT_MOST],
        )
    return submissions
