"""The calls on jobs, kinds, queues and workers: requests to send, and how to read the responses."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any, TypedDict
from urllib.parse import quote

from coatcheck.client.calls.download import download
from coatcheck.client.calls.events import OnFinished, follow_events
from coatcheck.client.calls.schedules import ScheduleCalls, trigger_path
from coatcheck.client.calls.wait import PollLength, wait_until_finished
from coatcheck.client.calls.webhooks import WebhookCalls
from coatcheck.client.effects import Effects, Emit
from coatcheck.client.new_job import NewJob, write_batch, write_job, write_json
from coatcheck.client.responses import JOB_MEMBERS, read_json, read_object
from coatcheck.client.retry import RequestRetryPolicy
from coatcheck.client.wire import JSON, JSON_HEADERS, ApiRequest
from coatcheck.errors import Gone, InvalidInput, Unreachable
from coatcheck.model.upload import Upload

Job = dict[str, Any]
Jobs = list[Job]
Reasons = list[dict[str, str]]
Listed = list[dict[str, Any]]
# The server's limits; it rejects larger bodies without reading them.
JOB_BYTES = 1024 * 1024
BATCH_BYTES = 16 * 1024 * 1024
_PRINTABLE = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?")


class JobQuery(TypedDict, total=False):
    """The filter of a job list."""

    state: str | None
    kind: str | None
    queue: str | None
    labels: Mapping[str, str] | None
    created_after: datetime | None


@dataclass(frozen=True, slots=True)
class Page:
    """Jobs, newest first; `next_cursor` continues the list and is None on the last page."""

    jobs: Jobs
    next_cursor: str | None


class ApiCalls:
    """The calls of one client, as effects that a driver performs."""

    def __init__(self, policy: RequestRetryPolicy) -> None:
        self._policy = policy
        self._poll_length = PollLength()
        self.schedules = ScheduleCalls(policy)
        self.webhooks = WebhookCalls(policy)

    def request(
        self, request: ApiRequest, *members: str, wait_s: float = 0.0
    ) -> Effects[dict[str, Any]]:
        """Send a request, with retries; return the response's object, with these members.

        The response may take `wait_s` longer than the client's timeout.
        """
        response, _ = yield from self._policy.send(request, wait_s)
        return read_object(response, *members)

    def submit(self, job: NewJob, key: str | None) -> Effects[Job]:
        """Submit a job once, however often the request is sent."""
        return self._once("/v1/jobs", write_job(job), key, JOB_BYTES, *JOB_MEMBERS)

    def submit_batch(self, jobs: Sequence[NewJob], key: str | None) -> Effects[Jobs]:
        """Submit a batch, all or none, once."""
        response = yield from self._once("/v1/batches", write_batch(jobs), key, BATCH_BYTES, "jobs")
        found: Jobs = response["jobs"]
        if len(found) != len(jobs):
            gone = len(jobs) - len(found)
            raise Gone(
                f"{gone:,} of the {len(jobs):,} jobs submitted under this key no longer exist"
            )
        return found

    def trigger(self, schedule: str, key: str | None) -> Effects[Job]:
        """Submit a schedule's job now, once."""
        return self._once(trigger_path(schedule), None, key, JOB_BYTES, *JOB_MEMBERS)

    def get(self, job_id: str) -> Effects[Job]:
        """Read a job."""
        return self.request(ApiRequest("GET", _path(job_id)), *JOB_MEMBERS)

    def wait(self, job_id: str, timeout: float) -> Effects[Job]:
        """Read a job once it is finished, or after the timeout."""
        job = yield from wait_until_finished(
            self._policy, self._poll_length, _path(job_id), timeout
        )
        if job.get("result_omitted"):  # too large for the job document
            response, _ = yield from self._policy.send(ApiRequest("GET", f"{_path(job_id)}/result"))
            job["result"] = read_json(response)
        return job

    def events(self, job_id: str, after: int | None, on_finished: OnFinished) -> Effects[None]:
        """Emit a job's events."""
        return follow_events(self._policy, f"{_path(job_id)}/events", after, on_finished)

    def artifacts(self, job_id: str) -> Effects[Listed]:
        """List a job's artifacts."""
        found = yield from self.request(
            ApiRequest("GET", f"{_path(job_id)}/artifacts"), "artifacts"
        )
        listed: Listed = found["artifacts"]
        return listed

    def download(self, job_id: str, name: str, file: IO[bytes]) -> Effects[None]:
        """Download an artifact into an empty file."""
        return download(self._policy, f"{_path(job_id)}/artifacts/{quote(name, safe='')}", file)

    def upload(
        self,
        data: bytes | os.PathLike[str],
        name: str | None,
        content_type: str | None,
        key: str | None,
    ) -> Effects[Upload]:
        """Upload a file for a job, once."""
        key = _key(key)
        headers = {"accept": JSON, "idempotency-key": key}
        path = None if isinstance(data, bytes) else Path(data)
        if path is not None:
            name = name or path.name
            headers["content-length"] = str(path.stat().st_size)
        if content_type is not None:
            headers["content-type"] = content_type
        query = () if name is None else (("name", name),)
        content = data if isinstance(data, bytes) else None
        request = ApiRequest("POST", "/v1/uploads", query, headers, content, path)
        try:
            upload = yield from self.request(request, "id", "sha256")
        except Unreachable as error:
            raise Unreachable(str(error), key) from None
        return Upload(upload=upload["id"])

    def explain(self, job_id: str) -> Effects[Reasons]:
        """Read why a job is not finished."""
        job = yield from self.request(
            ApiRequest("GET", _path(job_id), (("explain", "1"),)), "explain"
        )
        reasons: Reasons = job["explain"]
        return reasons

    def cancel(self, job_id: str) -> Effects[Job]:
        """Request a job's cancellation."""
        return self.request(ApiRequest("POST", f"{_path(job_id)}/cancel"), *JOB_MEMBERS)

    def delete(self, job_id: str) -> Effects[dict[str, Any]]:
        """Delete a finished job; return the receipt."""
        response, retries = yield from self._policy.send(ApiRequest("DELETE", _path(job_id)))
        if retries and response.status == 410:
            # An earlier attempt deleted it; its response, with the receipt, was lost.
            return {"id": job_id, "deleted_at": None, "removed": None}
        return read_object(response)

    def list(self, which: JobQuery, limit: int | None, cursor: str | None) -> Effects[Page]:
        """Read a page of jobs."""
        query = [*_query(which)]
        query += [] if limit is None else [("limit", str(limit))]
        query += [] if cursor is None else [("cursor", cursor)]
        page = yield from self.request(
            ApiRequest("GET", "/v1/jobs", tuple(query)), "jobs", "next_cursor"
        )
        return Page(page["jobs"], page["next_cursor"])

    def iterate(self, which: JobQuery, page_size: int | None) -> Effects[None]:
        """Emit every job; read pages as needed."""
        cursor: str | None = None
        while True:
            page = yield from self.list(which, page_size, cursor)
            for job in page.jobs:
                yield Emit(job)
            cursor = page.next_cursor
            if cursor is None:
                return

    def steps(self, job_id: str) -> Effects[Listed]:
        """Read a job's recorded steps with their results."""
        response = yield from self.request(ApiRequest("GET", f"{_path(job_id)}/steps"), "steps")
        found: Listed = response["steps"]
        for step in found:
            if step.pop("result_omitted", False):  # too large for the list
                path = f"{_path(job_id)}/steps/{step['seq']}/result"
                result, _ = yield from self._policy.send(ApiRequest("GET", path))
                step["result"] = read_json(result)
        return found

    def send(self, job_id: str, name: str, data: Any) -> Effects[Job]:
        """Send an event to a job, once."""
        path = f"{_path(job_id)}/events/{quote(name, safe='')}"
        return self._once(path, write_json(data), None, JOB_BYTES, *JOB_MEMBERS)

    def resume_job(self, job_id: str) -> Effects[Job]:
        """Resume a failed or cancelled job."""
        return self.request(ApiRequest("POST", f"{_path(job_id)}/resume"), *JOB_MEMBERS)

    def resume_all(self, which: JobQuery, dry_run: bool) -> Effects[int]:
        """Resume, or count, all jobs that match a filter, page by page."""
        created_after = which.get("created_after")
        filters = {**which, "created_after": created_after and created_after.isoformat()}
        body: dict[str, Any] = {name: value for name, value in filters.items() if value is not None}
        body["dry_run"] = dry_run
        resumed = 0
        cursor: str | None = None
        while True:
            content = write_json(body if cursor is None else {**body, "cursor": cursor})
            request = ApiRequest("POST", "/v1/resumptions", headers=JSON_HEADERS, content=content)
            page = yield from self.request(request, "jobs", "next_cursor")
            resumed += int(page["jobs"])
            cursor = page["next_cursor"]
            if cursor is None:
                return resumed

    def fork(self, job_id: str, body: dict[str, Any], key: str | None) -> Effects[Job]:
        """Submit a fork of a job, once; the body has `from_step` and possibly `input`."""
        path = f"{_path(job_id)}/fork"
        return self._once(path, write_json(body), key, JOB_BYTES, *JOB_MEMBERS)

    def kinds(self) -> Effects[Listed]:
        """Read the declared kinds."""
        return self._list_all("kinds")

    def workers(self) -> Effects[Listed]:
        """Read the registered workers and the jobs they hold."""
        return self._list_all("workers")

    def queues(self) -> Effects[Listed]:
        """Read the queues and their depths."""
        return self._list_all("queues")

    def pause(self, queue: str) -> Effects[dict[str, Any]]:
        """Pause a queue."""
        return self.request(ApiRequest("POST", f"/v1/queues/{quote(queue, safe='')}/pause"))

    def resume(self, queue: str) -> Effects[dict[str, Any]]:
        """Resume a queue."""
        return self.request(ApiRequest("POST", f"/v1/queues/{quote(queue, safe='')}/resume"))

    def _once(
        self, path: str, body: bytes | None, key: str | None, limit: int, *members: str
    ) -> Effects[dict[str, Any]]:
        """Send a POST with an idempotency key; generate a key if none is given."""
        key = _key(key)
        headers = {"accept": JSON, "idempotency-key": key}
        if body is not None:
            headers["content-type"] = JSON
        request = ApiRequest("POST", path, headers=headers, content=body)
        try:
            if body is not None and len(body) > limit:
                return read_object(
                    (yield from self._policy.send_oversized(request, limit)), *members
                )
            return (yield from self.request(request, *members))
        except Unreachable as error:
            raise Unreachable(str(error), key) from None

    def _list_all(self, what: str) -> Effects[Listed]:
        found: Listed = (yield from self.request(ApiRequest("GET", f"/v1/{what}"), what))[what]
        return found


def _key(given: str | None) -> str:
    if given is None:
        return uuid.uuid4().hex
    if not _PRINTABLE.fullmatch(given):
        raise InvalidInput("an idempotency key has 1 to 255 printable ASCII characters")
    return given


def _path(job_id: str) -> str:
    return f"/v1/jobs/{quote(job_id, safe='')}"


def _query(which: JobQuery) -> list[tuple[str, str]]:
    plain = {"state": which.get("state"), "kind": which.get("kind"), "queue": which.get("queue")}
    query = [(name, text) for name, text in plain.items() if text is not None]
    query += [("label", f"{name}:{value}") for name, value in (which.get("labels") or {}).items()]
    created_after = which.get("created_after")
    if created_after is not None:
        query.append(("created_after", created_after.isoformat()))
    return query
