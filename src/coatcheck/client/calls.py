"""Every call of the API, once, for both clients: what to send and how to read what comes back."""

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

from coatcheck.client.download import download
from coatcheck.client.effects import Emit, Steps
from coatcheck.client.follow import Keep, follow
from coatcheck.client.new_job import NewJob, write_batch, write_job, write_json
from coatcheck.client.responses import JOB_MEMBERS, read_json, read_object
from coatcheck.client.retry import RetryPolicy
from coatcheck.client.schedules import ScheduleCalls, trigger_path
from coatcheck.client.wait import Pieces, wait_for_end
from coatcheck.client.webhook_calls import WebhookCalls
from coatcheck.client.wire import JSON, ApiRequest
from coatcheck.errors import Gone, InvalidInput, Unreachable
from coatcheck.model.upload import Upload

Job = dict[str, Any]
Jobs = list[Job]
Reasons = list[dict[str, str]]
Listed = list[dict[str, Any]]
# What a server takes; it refuses more without reading it.
JOB_BYTES = 1024 * 1024
BATCH_BYTES = 16 * 1024 * 1024
_JSON_BODY = {"accept": JSON, "content-type": JSON}
_PRINTABLE = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?")


class JobQuery(TypedDict, total=False):
    """Which jobs to list."""

    state: str | None
    kind: str | None
    queue: str | None
    labels: Mapping[str, str] | None
    created_after: datetime | None


@dataclass(frozen=True, slots=True)
class Page:
    """Some jobs, newest first; `next_cursor` leads to the next page, and is None on the last."""

    jobs: Jobs
    next_cursor: str | None


class ApiCalls:
    """The calls of one client, as steps that a driver carries out."""

    def __init__(self, patience: RetryPolicy) -> None:
        self._patience = patience
        self._pieces = Pieces()
        self.schedules = ScheduleCalls(patience)
        self.webhooks = WebhookCalls(patience)

    def submit(self, job: NewJob, key: str | None) -> Steps[Job]:
        """Hand a job in, once, however often it must be said."""
        return self._once("/v1/jobs", write_job(job), key, JOB_BYTES, *JOB_MEMBERS)

    def submit_batch(self, jobs: Sequence[NewJob], key: str | None) -> Steps[Jobs]:
        """Hand many jobs in, all or none, once."""
        answer = yield from self._once("/v1/batches", write_batch(jobs), key, BATCH_BYTES, "jobs")
        found: Jobs = answer["jobs"]
        if len(found) != len(jobs):
            gone = len(jobs) - len(found)
            raise Gone(f"{gone:,} of the {len(jobs):,} jobs submitted under this key are gone")
        return found

    def trigger(self, schedule: str, key: str | None) -> Steps[Job]:
        """Have a schedule's job made now, once."""
        return self._once(trigger_path(schedule), None, key, JOB_BYTES, *JOB_MEMBERS)

    def get(self, job_id: str) -> Steps[Job]:
        """Read a job."""
        return self._object(ApiRequest("GET", _path(job_id)), *JOB_MEMBERS)

    def wait(self, job_id: str, timeout: float) -> Steps[Job]:
        """Read a job when it has ended, or as it stands when the time runs out."""
        job = yield from wait_for_end(self._patience, self._pieces, _path(job_id), timeout)
        if job.get("result_omitted"):  # too large to be shown with the job
            answer, _ = yield from self._patience.ask(ApiRequest("GET", f"{_path(job_id)}/result"))
            job["result"] = read_json(answer)
        return job

    def events(self, job_id: str, after: int | None, keep: Keep) -> Steps[None]:
        """Emit a job's events."""
        return follow(self._patience, f"{_path(job_id)}/events", after, keep)

    def artifacts(self, job_id: str) -> Steps[Listed]:
        """Read which files a job has left behind."""
        found = yield from self._object(
            ApiRequest("GET", f"{_path(job_id)}/artifacts"), "artifacts"
        )
        listed: Listed = found["artifacts"]
        return listed

    def download(self, job_id: str, name: str, file: IO[bytes]) -> Steps[None]:
        """Read a file that a job has left behind into an empty one."""
        return download(self._patience, f"{_path(job_id)}/artifacts/{quote(name, safe='')}", file)

    def upload(
        self,
        data: bytes | os.PathLike[str],
        name: str | None,
        content_type: str | None,
        key: str | None,
    ) -> Steps[Upload]:
        """Hand a file in that a job will need, once."""
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
            taken = yield from self._object(request, "id", "sha256")
        except Unreachable as error:
            raise Unreachable(str(error), key) from None
        return Upload(upload=taken["id"])

    def explain(self, job_id: str) -> Steps[Reasons]:
        """Read what holds a job."""
        job = yield from self._object(
            ApiRequest("GET", _path(job_id), (("explain", "1"),)), "explain"
        )
        reasons: Reasons = job["explain"]
        return reasons

    def cancel(self, job_id: str) -> Steps[Job]:
        """Ask for a job to be cancelled."""
        return self._object(ApiRequest("POST", f"{_path(job_id)}/cancel"), *JOB_MEMBERS)

    def delete(self, job_id: str) -> Steps[dict[str, Any]]:
        """Delete a job that has ended; the receipt."""
        answer, lost = yield from self._patience.ask(ApiRequest("DELETE", _path(job_id)))
        if lost and answer.status == 410:
            # Deleted by a request of ours whose answer, with the receipt, was lost.
            return {"id": job_id, "deleted_at": None, "removed": None}
        return read_object(answer)

    def list(self, which: JobQuery, limit: int | None, cursor: str | None) -> Steps[Page]:
        """Read a page of jobs."""
        query = [*_query(which)]
        query += [] if limit is None else [("limit", str(limit))]
        query += [] if cursor is None else [("cursor", cursor)]
        answer = yield from self._object(
            ApiRequest("GET", "/v1/jobs", tuple(query)), "jobs", "next_cursor"
        )
        return Page(answer["jobs"], answer["next_cursor"])

    def iterate(self, which: JobQuery, page_size: int | None) -> Steps[None]:
        """Emit every job, page by page as they are wanted."""
        cursor: str | None = None
        while True:
            page = yield from self.list(which, page_size, cursor)
            for job in page.jobs:
                yield Emit(job)
            cursor = page.next_cursor
            if cursor is None:
                return

    def steps(self, job_id: str) -> Steps[Listed]:
        """Read what a job has done so far."""
        answer = yield from self._object(ApiRequest("GET", f"{_path(job_id)}/steps"), "steps")
        found: Listed = answer["steps"]
        for step in found:
            if step.pop("result_omitted", False):  # too large to be shown with the others
                path = f"{_path(job_id)}/steps/{step['seq']}/result"
                alone, _ = yield from self._patience.ask(ApiRequest("GET", path))
                step["result"] = read_json(alone)
        return found

    def send(self, job_id: str, name: str, data: Any) -> Steps[Job]:
        """Send an event to a job, once."""
        path = f"{_path(job_id)}/events/{quote(name, safe='')}"
        return self._once(path, write_json(data), None, JOB_BYTES, *JOB_MEMBERS)

    def resume_job(self, job_id: str) -> Steps[Job]:
        """Let a job go on that failed or was cancelled."""
        return self._object(ApiRequest("POST", f"{_path(job_id)}/resume"), *JOB_MEMBERS)

    def resume_all(self, which: JobQuery, dry_run: bool) -> Steps[int]:
        """Resume, or count, all jobs that a filter finds, some at a time."""
        created_after = which.get("created_after")
        asked = {**which, "created_after": created_after and created_after.isoformat()}
        body: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
        body["dry_run"] = dry_run
        resumed = 0
        cursor: str | None = None
        while True:
            content = write_json(body if cursor is None else {**body, "cursor": cursor})
            request = ApiRequest("POST", "/v1/resumptions", headers=_JSON_BODY, content=content)
            answer = yield from self._object(request, "jobs", "next_cursor")
            resumed += int(answer["jobs"])
            cursor = answer["next_cursor"]
            if cursor is None:
                return resumed

    def fork(
        self,
        job_id: str,
        from_step: int | str,
        input: Any,  # noqa: A002 - the name the contract gives it
        key: str | None,
    ) -> Steps[Job]:
        """Begin a new job at a step of another, once."""
        body = (
            {"from_step": from_step} if input is None else {"from_step": from_step, "input": input}
        )
        path = f"{_path(job_id)}/fork"
        return self._once(path, write_json(body), key, JOB_BYTES, *JOB_MEMBERS)

    def kinds(self) -> Steps[Listed]:
        """Read what can be submitted."""
        return self._listed("kinds")

    def workers(self) -> Steps[Listed]:
        """Read the registered workers and the jobs they hold."""
        return self._listed("workers")

    def queues(self) -> Steps[Listed]:
        """Read the queues and how deep they are."""
        return self._listed("queues")

    def pause(self, queue: str) -> Steps[dict[str, Any]]:
        """Stop starting jobs of a queue."""
        return self._object(ApiRequest("POST", f"/v1/queues/{quote(queue, safe='')}/pause"))

    def resume(self, queue: str) -> Steps[dict[str, Any]]:
        """Start jobs of a queue again."""
        return self._object(ApiRequest("POST", f"/v1/queues/{quote(queue, safe='')}/resume"))

    def _once(
        self, path: str, body: bytes | None, key: str | None, limit: int, *members: str
    ) -> Steps[dict[str, Any]]:
        """Ask for something that happens once: under a key of its own where none is given."""
        key = _key(key)
        headers = {"accept": JSON, "idempotency-key": key}
        if body is not None:
            headers["content-type"] = JSON
        request = ApiRequest("POST", path, headers=headers, content=body)
        try:
            if body is not None and len(body) > limit:
                return read_object((yield from self._patience.ask_large(request, limit)), *members)
            return (yield from self._object(request, *members))
        except Unreachable as error:
            raise Unreachable(str(error), key) from None

    def _listed(self, what: str) -> Steps[Listed]:
        found: Listed = (yield from self._object(ApiRequest("GET", f"/v1/{what}"), what))[what]
        return found

    def _object(self, request: ApiRequest, *members: str) -> Steps[dict[str, Any]]:
        answer, _ = yield from self._patience.ask(request)
        return read_object(answer, *members)


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
