"""What the tests of the HTTP layer begin with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
from starlette.applications import Starlette

from coatcheck.model.job import Job
from coatcheck.model.worker import WorkerInfo

# When every test begins: 2033-05-18T03:33:20.000Z.
NOW = 2_000_000_000_000
NOW_TEXT = "2033-05-18T03:33:20.000Z"

# What the fixtures of these names are.
Submit = Callable[..., Awaitable[dict[str, Any]]]
StoredJobs = Callable[[], Awaitable[list[Job]]]
LogLines = Callable[[], list[dict[str, Any]]]

JSON = {"Content-Type": "application/json"}


class StoppedClock:
    """A clock that moves only when a test moves it."""

    def __init__(self) -> None:
        self.milliseconds = NOW

    def now(self) -> int:
        return self.milliseconds

    def monotonic(self) -> float:
        return self.milliseconds / 1000


def connect(app: Starlette, *, raise_app_exceptions: bool = True) -> httpx2.AsyncClient:
    """Return a client that calls the application in this process."""
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=raise_app_exceptions)
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost")


def worker_info(worker_id: str) -> WorkerInfo:
    """Return a worker that only claims: nothing runs, so a job stays as the test puts it."""
    return WorkerInfo(id=worker_id, host="here", pid=1, kinds=(), slots=1, started_at=NOW)
