"""Client: submit a job from a Python program and come back for its result."""

from __future__ import annotations

import time
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import httpx2
from pydantic_core import to_jsonable_python

from coatcheck.errors import (
    CoatcheckError,
    Conflict,
    Gone,
    InvalidInput,
    InvalidPayload,
    JobCancelled,
    JobFailed,
    NotFound,
    StoreUnavailable,
    TimedOut,
    UnknownKind,
)

DEFAULT_TIMEOUT_S = 900.0
# One long poll; short enough that proxies between us and the server do not cut it.
LONG_POLL_S = 25.0
RETRY_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0

_ERRORS: dict[int, type[CoatcheckError]] = {
    400: InvalidInput,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: InvalidInput,
    415: InvalidInput,
    503: StoreUnavailable,
}


class JobHandle:
    """A submitted job, seen from the program that submitted it."""

    def __init__(self, client: Client, job: dict[str, Any]) -> None:
        self._client = client
        self.id: str = job["id"]
        self.job = job

    def __repr__(self) -> str:
        return f"<JobHandle {self.id} {self.job['kind']} {self.job['state']}>"

    def refresh(self) -> dict[str, Any]:
        """Read how the job stands now."""
        self.job = self._client.get(self.id)
        return self.job

    def result(self, timeout: float = DEFAULT_TIMEOUT_S) -> Any:
        """Wait for the job and return its result; raises JobFailed, JobCancelled or TimedOut."""
        self.job = self._client.wait(self.id, timeout)
        match self.job["state"]:
            case "succeeded":
                return self.job["result"]
            case "failed":
                error = self.job["error"] or {"code": "unknown", "message": "no error was kept"}
                raise JobFailed(self.id, error["code"], error["message"], self.job["reason"])
            case "cancelled":
                raise JobCancelled(self.id, f"job {self.id} was cancelled")
        raise TimedOut(self.id, f"job {self.id} is still {self.job['state']} after {timeout:g} s")

    def cancel(self) -> dict[str, Any]:
        """Ask for the job to be cancelled."""
        self.job = self._client.cancel(self.id)
        return self.job


class Client:
    """Talks to a Coatcheck server. Use it as a context manager, or close it."""

    def __init__(self, base_url: str = "http://127.0.0.1:8080", *, timeout: float = 30.0) -> None:
        self._http = httpx2.Client(base_url=base_url, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def submit(
        self,
        kind: str,
        input: Any = None,  # noqa: A002 - the name the contract gives it
        *,
        queue: str | None = None,
        priority: int = 0,
        labels: dict[str, str] | None = None,
        run_at: datetime | None = None,
        deadline_s: float | None = None,
        max_attempts: int | None = None,
    ) -> JobHandle:
        """Hand a job in; when this returns, it is durable."""
        body: dict[str, Any] = {"kind": kind, "input": to_jsonable_python(input)}
        optional = {
            "queue": queue,
            "priority": priority or None,
            "labels": labels,
            "run_at": None if run_at is None else run_at.isoformat(),
            "deadline_s": deadline_s,
            "max_attempts": max_attempts,
        }
        body.update({name: value for name, value in optional.items() if value is not None})
        return JobHandle(self, _read(self._http.post("/v1/jobs", json=body)))

    def run(self, kind: str, input: Any = None, *, timeout: float = DEFAULT_TIMEOUT_S) -> Any:  # noqa: A002
        """Submit a job and wait for its result."""
        return self.submit(kind, input).result(timeout)

    def get(self, job_id: str) -> dict[str, Any]:
        """Read a job."""
        return _read(self._http.get(f"/v1/jobs/{job_id}"))

    def cancel(self, job_id: str) -> dict[str, Any]:
        """Ask for a job to be cancelled."""
        return _read(self._http.post(f"/v1/jobs/{job_id}/cancel"))

    def wait(self, job_id: str, timeout: float = DEFAULT_TIMEOUT_S) -> dict[str, Any]:
        """Read a job when it has ended, or as it stands when the time runs out.

        A server that restarts in between is waited for: the job is durable, and so is the wait.
        """
        until = time.monotonic() + timeout
        pause = RETRY_PAUSE_S
        while True:
            left = max(0.0, until - time.monotonic())
            wait = min(LONG_POLL_S, left)
            try:
                job = _read(
                    self._http.get(
                        f"/v1/jobs/{job_id}", params={"wait": f"{wait:.3f}"}, timeout=wait + 10
                    )
                )
            except (httpx2.TransportError, StoreUnavailable):
                if left <= 0:
                    raise
                time.sleep(min(pause, left))
                pause = min(LONGEST_PAUSE_S, pause * 2)
                continue
            if job["finished_at"] is not None or left <= 0:
                return job
            pause = RETRY_PAUSE_S
            if until - time.monotonic() > left - wait:
                # Answered early: the server is about to stop, and another one will come.
                time.sleep(min(pause, left))


def _read(response: httpx2.Response) -> dict[str, Any]:
    if response.is_success:
        return dict(response.json())
    try:
        said = response.json()
        detail, said_type = str(said["detail"]), said.get("type")
        problems = [(item["pointer"], item["detail"]) for item in said.get("errors", [])]
    except (ValueError, KeyError, TypeError):
        detail, said_type, problems = f"the server answered {response.status_code}", None, []
    if said_type == "urn:coatcheck:unknown-kind":
        raise UnknownKind(detail)
    if response.status_code == 422:
        raise InvalidPayload(detail, problems)
    raise _ERRORS.get(response.status_code, CoatcheckError)(detail)
