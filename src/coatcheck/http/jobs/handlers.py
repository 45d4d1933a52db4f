"""The handlers of jobs: submit, list, read, wait, cancel and delete."""

from __future__ import annotations

import hashlib
import logging
import re

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from coatcheck.clock import to_rfc3339
from coatcheck.documents.jobs import ReceiptDocument
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.idempotency import IdempotencyKey
from coatcheck.engine.submit.submission import Submission
from coatcheck.http.auth.caller import admission_of, caller_of, check_kind, tenant_of
from coatcheck.http.auth.readers import may_manage, named_job, surface_of
from coatcheck.http.endpoint import JSON
from coatcheck.http.errors import problem_response
from coatcheck.http.jobs.fast_submit import accepted_response
from coatcheck.http.jobs.models import read_submission
from coatcheck.http.jobs.views import dumps, error_view, job_json, position_view
from coatcheck.http.request.body import read_json
from coatcheck.http.request.idempotency import REPLAYED, read_idempotency_key
from coatcheck.http.request.prefer import Preference, read_preference
from coatcheck.http.request.query import read_flag, read_job_filter, read_wait, write_cursor
from coatcheck.logs import correlation_id
from coatcheck.model.access import Scope
from coatcheck.model.job import Job
from coatcheck.model.payload import is_reference, read_reference
from coatcheck.model.state import State

log = logging.getLogger(__name__)

# W3C Trace Context: version ff and ids of zeros are invalid.
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)


async def submit_job(request: Request) -> Response:
    """Submit a job. Returns 202 once the job is durable, or 200 if it is finished by then."""
    engine: Engine = request.app.state.engine
    body = await read_json(request)
    submission = authorize_submission(
        request,
        read_submission(
            body, correlation=correlation_id.get(), traceparent=read_traceparent(request)
        ),
    )
    preference = read_preference(request)
    key = read_idempotency_key(request, body)
    if preference.wait_s:
        with engine.open_requests.hold(caller_of(request).tenant):
            return await _submit_and_wait(engine, submission, key, preference)
    if key is None:
        return accepted_response(engine, await engine.insert(submission), preference.headers)
    return await _submit_and_wait(engine, submission, key, preference)


async def _submit_and_wait(
    engine: Engine, submission: Submission, key: IdempotencyKey | None, preference: Preference
) -> Response:
    if key is None:
        job, replayed = await engine.submit(submission), False
    else:
        [job], replayed = await engine.submit_idempotent(submission, key)
    log.debug("job submitted", extra={"job_id": job.id, "kind": job.kind, "replayed": replayed})
    if preference.wait_s and not job.state.is_terminal:
        job = await engine.wait_for_job(job, preference.wait_s)
    headers = {"Location": f"/v1/jobs/{job.id}", **preference.headers}
    if replayed:
        headers[REPLAYED] = "true"
    return job_response(engine, job, 200 if job.state.is_terminal else 202, headers)


def authorize_submission(request: Request, submission: Submission) -> Submission:
    """Return a submission for the caller's tenant; raise Forbidden if the key excludes its kind."""
    check_kind(request, Scope.WRITE, submission.kind)
    return submission._replace(
        tenant=tenant_of(request), admission=admission_of(request, submission.kind)
    )


async def get_job(request: Request) -> Response:
    """Return a job, at once or, with `?wait=N`, when it is finished."""
    engine: Engine = request.app.state.engine
    query = request.query_params
    job = await engine.wait_for_job(await named_job(request), read_wait(query))
    extra = position_view(await engine.position(job))
    if read_flag(query, "explain"):
        reasons = await engine.explain(job)
        extra["explain"] = [{"code": why.code, "message": why.message} for why in reasons]
    body = job_json(job, extra)
    tag = f'"{hashlib.blake2b(body.encode(), digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return job_response(engine, job, 200, headers, body)


async def list_jobs(request: Request) -> Response:
    """Return a page of jobs, newest first, without their results. Jobs that the caller may not read
    are skipped, so a page may hold fewer than `limit`.
    """
    engine: Engine = request.app.state.engine
    check_kind(request, Scope.READ, request.query_params.get("kind"))
    which = read_job_filter(request.query_params, tenant_of(request))
    # One more than the limit tells whether there is another page.
    found = await engine.list_jobs(which._replace(limit=which.limit + 1))
    page = found[: which.limit]
    more = write_cursor(page[-1].id) if len(found) > which.limit else None
    jobs = ",".join(job_json(job) for job in page if may_manage(request, job))
    return Response(f'{{"jobs":[{jobs}],"next_cursor":{dumps(more)}}}', media_type=JSON)


async def get_result(request: Request) -> Response:
    """Return a job's result. Returns 202 while the job is not finished, and 409 if it failed or was
    cancelled.
    """
    engine: Engine = request.app.state.engine
    wait = read_wait(request.query_params)
    job = await engine.wait_for_job(await named_job(request), wait)
    match job.state:
        case State.SUCCEEDED:
            surface = surface_of(request, job)
            if surface is not None and (own := await surface.result(request, job)) is not None:
                return own
            return await payload_response(engine, request, job.result or "null")
        case State.FAILED:
            message = job.error.message if job.error else "no error was recorded"
            error = None if job.error is None else error_view(job.error)
            return problem_response(
                409,
                "job-failed",
                f"job {job.id} failed: {message}",
                extra={"error": error, "reason": job.reason},
            )
        case State.CANCELLED:
            return problem_response(409, "job-cancelled", f"job {job.id} was cancelled")
    return job_response(engine, job, 202)


async def get_input(request: Request) -> Response:
    """Return a job's input, unless it was dropped."""
    engine: Engine = request.app.state.engine
    job = await named_job(request)
    return await payload_response(
        engine, request, await engine.store.jobs.get_input(job.tenant, job.id)
    )


async def payload_response(engine: Engine, request: Request, payload: str) -> Response:
    """Return a payload, inline or streamed from the blob store."""
    if not is_reference(payload):
        return Response(payload, media_type=JSON)
    blob = read_reference(payload)
    headers = {"Content-Length": str(blob.size)}
    pieces = await engine.payload_store.stream(
        blob, stop=0 if request.method == "HEAD" else blob.size
    )
    return StreamingResponse(pieces, 200, headers, JSON)


async def cancel_job(request: Request) -> Response:
    """Cancel a job. Returns 200 if it is cancelled or was finished, 202 if it is still running and
    its handler was interrupted.
    """
    engine: Engine = request.app.state.engine
    job = await engine.cancel(request.path_params["job_id"], tenant_of(request))
    log.info("job cancel requested", extra={"job_id": job.id, "kind": job.kind})
    return job_response(engine, job, 200 if job.state.is_terminal else 202)


async def delete_job(request: Request) -> Response:
    """Delete a finished job and return a receipt."""
    engine: Engine = request.app.state.engine
    deleted, at, erased = await engine.delete(request.path_params["job_id"], tenant_of(request))
    log.info("job deleted", extra={"job_id": deleted.job_id, "erased": erased})
    receipt: ReceiptDocument = {
        "id": deleted.job_id,
        "deleted_at": to_rfc3339(at),
        "erased": erased,
        "removed": {
            "jobs": 1,
            "payloads": deleted.payloads,
            "events": deleted.events,
            "steps": deleted.steps,
            "artifacts": deleted.artifacts,
            "deliveries": deleted.deliveries,
            "uploads": deleted.uploads,
            "blobs": deleted.blobs,
            "messages": deleted.messages,
        },
    }
    return Response(dumps(receipt), media_type=JSON)


def read_traceparent(request: Request) -> str | None:
    """Read the trace context of a request; ignore a malformed one."""
    given = request.headers.get("traceparent")
    return given if given is not None and _TRACEPARENT.fullmatch(given) else None


def job_response(
    engine: Engine,
    job: Job,
    status: int,
    headers: dict[str, str] | None = None,
    body: str | None = None,
) -> Response:
    """Return a job, with Retry-After while it is not finished."""
    headers = headers or {}
    if not job.state.is_terminal:
        headers["Retry-After"] = str(engine.retry_after(job))
    return Response(job_json(job) if body is None else body, status, headers, JSON)
