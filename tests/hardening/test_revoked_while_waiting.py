"""A key that is revoked while its request waits gets nothing: every kind of wait, one by one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message

from coatcheck import App
from coatcheck.engine import confirmation
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.http.auth.caller import tenant_of
from coatcheck.http.endpoint import JSON, Endpoint, EndpointResponse, KindRule
from coatcheck.http.surfaces.base import Surface
from coatcheck.model.access import Scope, TenantStatus
from coatcheck.model.job import Failure
from coatcheck.model.outcome import GaveUp, Succeeded
from coatcheck.model.state import State
from coatcheck.store.base import JobFilter, Settlement, Topic
from coatcheck.surfaces.tasks.task import Task, get_task, put_task
from tests.hardening.surfaces import Served, every_surface_served
from tests.http.arrange import connect, worker_info
from tests.http.streams import Stream

pytestmark = pytest.mark.anyio

ACME = "acme"
SECRET = "the launch code"
PATIENCE_S = 20.0
ACCEPT = {"Accept": "application/json, text/event-stream"}


class Case(NamedTuple):
    """A request that waits for a job of this kind; `{job}` in its path stands for one."""

    kind: str
    method: str
    path: str
    sent: Mapping[str, Any] = MappingProxyType({})


def waits(seconds: int = 30, **more: str) -> dict[str, str]:
    return {"Prefer": f"wait={seconds}", **more}


CHAT = {"model": "m", "messages": [], "stream": False}
CASES = {
    "long poll": Case("echo", "GET", "/v1/jobs/{job}?wait=30"),
    "result": Case("echo", "GET", "/v1/jobs/{job}/result?wait=30"),
    "page of events": Case(
        "echo", "GET", "/v1/jobs/{job}/events?wait=30&after=1", {"headers": {"Accept": JSON}}
    ),
    "submit": Case("echo", "POST", "/v1/jobs", {"json": {"kind": "echo"}, "headers": waits()}),
    "task": Case("command", "PUT", "/api/tasks/t1/executions?async=false"),
    "picture": Case(
        "render",
        "POST",
        "/render?mode=sync",
        {"json": {"source": "graph TD; A-->B;", "format": "mermaid"}},
    ),
    "document": Case(
        "ingest.document",
        "POST",
        "/v1/ingest",
        {"json": {"text": "words", "name": "a.txt", "collection": "c"}, "headers": waits()},
    ),
    "chat": Case("ollama", "POST", "/api/chat", {"json": CHAT}),
    "OpenAI chat": Case("ollama", "POST", "/v1/chat/completions", {"json": CHAT}),
    "proxied call": Case("proxy.reports", "POST", "/reports", {"json": {}}),
}


class Waiting(NamedTuple):
    """A server, and a signal that a request waits."""

    served: Served
    entered: asyncio.Event

    @property
    def engine(self) -> Engine:
        return self.served.engine

    async def key(self, *scopes: str, tenant: str = ACME) -> tuple[str, dict[str, str]]:
        wanted = scopes or (Scope.READ, Scope.WRITE, Scope.CANCEL)
        key, shown = await self.engine.authenticator.create_key(tenant, wanted)
        return key.id, {"Authorization": f"Bearer {shown}"}

    async def is_waiting(self) -> None:
        await asyncio.wait_for(self.entered.wait(), PATIENCE_S)

    async def end(self, kind: str) -> None:
        """Finish the job that the request waits for."""
        [claim] = (await self.engine.claim("claimer", [kind], 1)).claims
        outcome = Succeeded(json.dumps(SECRET)) if kind == "echo" else GaveUp(Failure("no", SECRET))
        assert await self.engine.settle([Settlement(claim.lease, outcome)]) == [True]


@pytest.fixture
async def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Waiting]:
    async with every_surface_served(tmp_path, SlowSurface()) as served:
        engine, entered = served.engine, asyncio.Event()
        watch = engine._waiters
        enter = watch._register

        def entering(*arguments: Any) -> None:
            enter(*arguments)
            entered.set()

        monkeypatch.setattr(watch, "_register", entering)
        await engine.store.workers.register_worker(worker_info("claimer"))
        task = Task(id="t1", name="t", command="uname")
        await put_task(engine, ACME, task, "cli")
        yield Waiting(served, entered)


async def revoke(engine: Engine, key_id: str) -> int:
    await engine.authenticator.revoke_key(key_id)
    return 401


async def suspend(engine: Engine, key_id: str) -> int:
    await engine.authenticator.put_tenant(ACME, status=TenantStatus.SUSPENDED)
    return 403


async def expect_nothing(
    waiting: Waiting,
    request: Awaitable[httpx2.Response],
    key_id: str,
    go_on: Callable[[], Awaitable[None]],
    stop: Callable[[Engine, str], Awaitable[int]] = revoke,
) -> httpx2.Response:
    """Revoke the key while the request waits, let it continue, and expect a rejection."""
    asking = asyncio.ensure_future(request)
    await waiting.is_waiting()
    status = await stop(waiting.engine, key_id)
    await go_on()
    answer = await asyncio.wait_for(asking, PATIENCE_S)
    assert answer.status_code == status, answer.text
    assert SECRET not in answer.text
    return answer


@pytest.mark.parametrize("stop", [revoke, suspend])
@pytest.mark.parametrize("name", list(CASES))
async def test_a_request_that_waited_is_authorized_again(
    waiting: Waiting, name: str, stop: Callable[[Engine, str], Awaitable[int]]
) -> None:
    case = CASES[name]
    key_id, headers = await waiting.key()
    path = case.path
    if "{job}" in path:
        job = await waiting.engine.submit(Submission(case.kind, tenant=ACME))
        path = path.format(job=job.id)
    sent = {**case.sent, "headers": {**headers, **case.sent.get("headers", {})}}
    async with connect(waiting.served.app) as http:
        await expect_nothing(
            waiting,
            http.request(case.method, path, **sent),
            key_id,
            lambda: waiting.end(case.kind),
            stop,
        )


class RawCall:
    """One call of the application, message by message, whose response may break off."""

    def __init__(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> None:
        given = {"host": "localhost", "content-type": JSON, **headers}
        self._scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "headers": [(name.lower().encode(), text.encode()) for name, text in given.items()],
        }
        self._to_send = [body]
        self.messages: list[Message] = []

    async def make(self, app: Starlette) -> None:
        await app(self._scope, self._receive, self._send)

    async def _receive(self) -> Message:
        if not self._to_send:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": self._to_send.pop(), "more_body": False}

    async def _send(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def bodies(self) -> list[bytes]:
        return [message["body"] for message in self.messages if message.get("body")]

    @property
    def is_whole(self) -> bool:
        return "body" in self.messages[-1] and not self.messages[-1].get("more_body", False)


@pytest.mark.parametrize("with_progress", [False, True])
@pytest.mark.parametrize("tool", ["echo", "job_result"])
async def test_a_waiting_mcp_call_of_a_revoked_key_gets_nothing(
    waiting: Waiting, tool: str, with_progress: bool
) -> None:
    key_id, headers = await waiting.key()
    arguments: dict[str, Any] = {"input": 1}
    if tool == "job_result":
        job = await waiting.engine.submit(Submission("echo", tenant=ACME))
        arguments = {"job_id": job.id, "wait_s": 30}
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    if with_progress:
        params["_meta"] = {"progressToken": "p"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    call = RawCall("POST", "/mcp", {**headers, **ACCEPT}, json.dumps(message).encode())
    calling = asyncio.ensure_future(call.make(waiting.served.app))
    await waiting.is_waiting()
    await waiting.engine.authenticator.revoke_key(key_id)
    await waiting.end("echo")
    await asyncio.wait_for(calling, PATIENCE_S)
    assert SECRET.encode() not in b"".join(call.bodies)
    assert call.messages[0]["status"] == 401 or not call.is_whole


@pytest.mark.parametrize("of", ["events", "card"])
async def test_a_stream_of_a_revoked_key_ends(waiting: Waiting, of: str) -> None:
    key_id, headers = await waiting.key()
    job = await waiting.engine.submit(Submission("echo", tenant=ACME))
    given = {"authorization": headers["Authorization"]}
    async with Stream(waiting.served.app, job.id, of=of, **given) as stream:
        assert await stream.next_told() is not None
        await waiting.is_waiting()
        await waiting.engine.authenticator.revoke_key(key_id)
        await waiting.end("echo")
        rest = await stream.rest()
    assert [event for event in rest if event.name not in ("comment", "retry")] == []


async def test_a_claim_of_a_revoked_key_is_released(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_id, headers = await waiting.key(Scope.WORK, tenant="default")
    store = waiting.engine.store
    subscribe = store.subscribe

    def subscribing(topic: Topic) -> Any:
        signal = subscribe(topic)
        if topic is Topic.WORK:
            waiting.entered.set()
        return signal

    monkeypatch.setattr(store, "subscribe", subscribing)
    submitted: list[str] = []

    async def submit() -> None:
        job = await waiting.engine.submit(Submission("echo", json.dumps(SECRET), tenant=ACME))
        submitted.append(job.id)

    async with connect(waiting.served.app) as http:
        body = {"kinds": ["echo"], "wait": 30}
        request = http.post("/v1/claims", json=body, headers=headers)
        await expect_nothing(waiting, request, key_id, submit)
    job = await waiting.engine.get(submitted[0], ACME)
    assert (job.state, job.attempt, job.worker) == (State.QUEUED, 0, None)
    assert [seen.info.id for seen in await store.workers.list_workers()] == ["claimer"]


# --- surfaces of others


class SlowSurface(Surface):
    """A surface that waits for something unknown to the engine."""

    name = "slow"

    def __init__(self) -> None:
        self.reached, self.goes_on = asyncio.Event(), asyncio.Event()
        answers = {200: EndpointResponse("It.", {JSON: {"type": "object"}})}
        self.endpoints = (
            Endpoint(
                *("GET", "/slow", self.answer, "slow", "Slow", "slow", answers), kind=KindRule.ALL
            ),
            Endpoint(
                *("GET", "/slow/stream", self.stream, "slowStream", "Slow", "slow", answers),
                kind=KindRule.ALL,
            ),
        )

    def declare(self, app: App) -> None:
        """Declare nothing."""

    async def answer(self, request: Request) -> Response:
        self.reached.set()
        await self.goes_on.wait()
        return JSONResponse({"tenant": tenant_of(request), "says": SECRET})

    async def stream(self, _request: Request) -> Response:
        return _Pieces(self)


class _Pieces(Response):
    def __init__(self, surface: SlowSurface) -> None:
        super().__init__()
        self._surface = surface

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        self._surface.reached.set()
        await self._surface.goes_on.wait()
        await send({"type": "http.response.body", "body": SECRET.encode(), "more_body": False})


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every response as one that took long."""
    monkeypatch.setattr(confirmation, "FRESH_S", 0.0)
    monkeypatch.setattr(confirmation, "STREAM_FRESH_S", 0.0)


@pytest.mark.usefixtures("at_once")
async def test_every_slow_endpoint_is_authorized_again(
    waiting: Waiting,
) -> None:
    [slow] = [each for each in waiting.served.surfaces if isinstance(each, SlowSurface)]
    key_id, headers = await waiting.key()

    async def go_on() -> None:
        slow.goes_on.set()

    async with connect(waiting.served.app) as http:
        request = http.get("/slow", headers=headers)
        await expect_nothing(Waiting(waiting.served, slow.reached), request, key_id, go_on)


@pytest.mark.usefixtures("at_once")
async def test_a_started_response_is_cut_off(waiting: Waiting) -> None:
    [slow] = [each for each in waiting.served.surfaces if isinstance(each, SlowSurface)]
    key_id, headers = await waiting.key()
    call = RawCall("GET", "/slow/stream", headers)
    calling = asyncio.ensure_future(call.make(waiting.served.app))
    await asyncio.wait_for(slow.reached.wait(), PATIENCE_S)
    await waiting.engine.authenticator.revoke_key(key_id)
    slow.goes_on.set()
    await asyncio.wait_for(calling, PATIENCE_S)
    assert call.bodies == [b"first"]
    assert not call.is_whole


# --- bodies


class SlowBody:
    """A request body whose last byte is held back."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.begun, self.goes_on = asyncio.Event(), asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._content[:-1]
        self.begun.set()
        await self.goes_on.wait()
        yield self._content[-1:]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("method", "path", "body", "content_type"),
    [
        ("PUT", "/api/tasks", {"id": "t1", "name": "mine", "command": "id"}, JSON),
        ("PUT", "/v1/schedules/nightly", {"kind": "echo", "every_s": 60}, JSON),
        ("POST", "/v1/cancellations", {"state": "queued"}, JSON),
        ("POST", "/v1/jobs", {"kind": "echo"}, JSON),
        ("POST", "/v1/uploads", "a file", "application/octet-stream"),
    ],
)
async def test_a_slow_body_does_not_outlive_its_key(
    waiting: Waiting, method: str, path: str, body: Any, content_type: str
) -> None:
    engine = waiting.engine
    key_id, headers = await waiting.key()
    await engine.submit(Submission("echo", tenant=ACME))
    before = await engine.list_jobs(JobFilter(ACME))
    slow = SlowBody(json.dumps(body).encode())

    async def go_on() -> None:
        slow.goes_on.set()

    async with connect(waiting.served.app) as http:
        sent: dict[str, Any] = {
            "content": slow,
            "headers": {**headers, "Content-Type": content_type},
        }
        request = http.request(method, path, **sent)
        await expect_nothing(Waiting(waiting.served, slow.begun), request, key_id, go_on)
    assert await engine.list_jobs(JobFilter(ACME)) == before
    assert await engine.schedules.page(tenant=ACME) == []
    task = await get_task(engine.store, ACME, "t1", engine.clock.now())
    assert json.loads(task.value)["command"] == "uname"
