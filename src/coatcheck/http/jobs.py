"""The routes on jobs."""

from __future__ import annotations

import logging
import re

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.engine.engine import Engine
from coatcheck.http.body import read_json
from coatcheck.http.checks import check_request
from coatcheck.http.job_request import read_submission
from coatcheck.http.job_view import job_json
from coatcheck.logs import correlation_id
from coatcheck.model.job import Job
from coatcheck.model.state import State

log = logging.getLogger(__name__)

LONGEST_WAIT_S = 60.0
# W3C Trace Context: version ff and ids of zeros are invalid.
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)


async def submit_job(request: Request) -> Response:
    """`POST /v1/jobs`: 202 once the job is durable."""
    check_request(request)
    engine: Engine = request.app.state.engine
    traceparent = request.headers.get("traceparent", "")
    submission = read_submission(
        await read_json(request),
        correlation=correlation_id.get(),
        traceparent=traceparent if _TRACEPARENT.fullmatch(traceparent) else None,
    )
    job = await engine.submit(submission)
    log.debug("submitted", extra={"job_id": job.id, "kind": job.kind})
    return _answer(job, 202, {"Location": f"/v1/jobs/{job.id}"})


async def get_job(request: Request) -> Response:
    """`GET /v1/jobs/{id}`, at once or, with `?wait=N`, when the job has ended."""
    check_request(request, "wait")
    engine: Engine = request.app.state.engine
    job_id = request.path_params["job_id"]
    wait = _seconds(request.query_params.get("wait", "0"))
    return _answer(await engine.wait(job_id, wait), 200)


async def cancel_job(request: Request) -> Response:
    """`POST /v1/jobs/{id}/cancel`: 200 when it is cancelled or had ended, 202 when it was told."""
    check_request(request)
    engine: Engine = request.app.state.engine
    job = await engine.cancel(request.path_params["job_id"])
    log.info("cancel asked", extra={"job_id": job.id, "kind": job.kind})
    return _answer(job, 202 if job.state is State.RUNNING else 200)


def _answer(job: Job, status: int, headers: dict[str, str] | None = None) -> Response:
    return Response(job_json(job), status, headers, "application/json")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_WAIT_S:
        raise HTTPException(400, f"wait must be seconds between 0 and {LONGEST_WAIT_S:g}")
    return seconds
