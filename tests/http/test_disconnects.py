"""Clients that hang up: what they handed in goes on, and their leaving is no fault of ours."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.types import Message, Scope

from tests.http.arrange import LogLines, StoredJobs, Submit

pytestmark = pytest.mark.anyio

DISCONNECT: Message = {"type": "http.disconnect"}


class Caller:
    """A connection as a server presents it to the application, which the client may leave."""

    def __init__(self, method: str, path: str, *messages: Message) -> None:
        path, _, query = path.partition("?")
        self.scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        self._messages = list(messages)

    async def receive(self) -> Message:
        return self._messages.pop(0) if self._messages else DISCONNECT

    async def send(self, message: Message) -> None:
        """Drop what is sent: nobody listens any more, which servers do not tell."""


def _piece(content: Any, *, more: bool) -> Message:
    return {"type": "http.request", "body": json.dumps(content).encode(), "more_body": more}


async def test_a_job_whose_submitter_left_before_the_answer_runs(
    app: Starlette, http: httpx2.AsyncClient, stored_jobs: StoredJobs
) -> None:
    caller = Caller("POST", "/v1/jobs", _piece({"kind": "echo", "input": 7}, more=False))

    await app(caller.scope, caller.receive, caller.send)

    [job] = await stored_jobs()
    assert job.state == "queued"
    assert not job.cancel_requested


async def test_a_job_whose_waiter_left_is_not_cancelled(
    app: Starlette, submit: Submit, stored_jobs: StoredJobs
) -> None:
    job = await submit("echo")
    caller = Caller("GET", f"/v1/jobs/{job['id']}?wait=0.01", _piece(None, more=False))

    await app(caller.scope, caller.receive, caller.send)

    [stored] = await stored_jobs()
    assert stored.state == "queued"
    assert not stored.cancel_requested


async def test_a_client_that_leaves_amid_its_body_submits_nothing_and_is_no_error(
    app: Starlette, stored_jobs: StoredJobs, log_lines: LogLines
) -> None:
    caller = Caller("POST", "/v1/jobs", _piece({"kind": "echo"}, more=True))

    await app(caller.scope, caller.receive, caller.send)

    assert await stored_jobs() == []
    assert [line for line in log_lines() if line["level"] == "error"] == []
