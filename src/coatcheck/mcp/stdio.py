"""MCP over stdin and stdout, for clients that start a program: each message is handed on to `/mcp`.

A request becomes one POST, under the headers that the protocol wants of it, and what comes back is
written out line by line. Requests do not wait for each other. What is lost on its way, because the
server restarts or the network fails, is sent again for a while: a call of a tool carries a key for
that, so that it is still one job. A client that cancels a request is not told of it any more; the
job goes on, for that is cancelled by other means.

Notifications and answers of the client end here: the door has asked for nothing and remembers
nobody. All that is kept is the version that an older client has agreed on at its beginning.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

from coatcheck.client.address import ServerAddress
from coatcheck.client.async_driver import AsyncDriver
from coatcheck.client.effects import Effects, Emit, Pause, open_stream, read_stream
from coatcheck.client.event_stream import EventStreamParser
from coatcheck.client.retry import RequestRetryPolicy, is_final, is_permanent
from coatcheck.client.wire import JSON, ApiRequest, ApiResponse, ConnectionLost
from coatcheck.mcp.names import IDEMPOTENCY_KEY, INTERNAL_ERROR, INVALID_REQUEST, PATH

# Longer than the server is silent in a stream.
TIMEOUT_S = 40.0
RETRY_FOR_S = 30.0
PARSE_ERROR = -32700
VERSION = "io.modelcontextprotocol/protocolVersion"
# The member of a request's parameters that its header repeats.
NAMED_BY = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}

Json = dict[str, Any]


class Bridge:
    """One client's connection."""

    def __init__(
        self,
        address: ServerAddress,
        write: Callable[[str], None],
        *,
        driver: AsyncDriver | None = None,
        retry_for_s: float = RETRY_FOR_S,
    ) -> None:
        self._address = address
        self._write = write
        self._driver = driver or AsyncDriver(address)
        self._policy = RequestRetryPolicy(address.shown, TIMEOUT_S, retry_for_s, time.monotonic)
        self._version: str | None = None  # which an older client has agreed on
        self._in_progress: dict[str | int, asyncio.Task[None]] = {}

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        """Serve a client until it has nothing more to say and has its answers."""
        try:
            async with asyncio.TaskGroup() as tasks:
                async for line in lines:
                    message = self._read(line)
                    if message is not None:
                        self._begin(message, tasks)
        except BaseExceptionGroup as group:
            if group.subgroup(BrokenPipeError) is not None:
                raise BrokenPipeError from None  # nobody listens any more
            raise
        finally:
            await self._driver.close()

    def _read(self, line: bytes) -> Json | None:
        if not line.strip():
            return None
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._refuse(None, PARSE_ERROR, "this is not JSON")
            return None
        if not isinstance(message, dict):
            self._refuse(None, INVALID_REQUEST, "send one JSON-RPC message a line")
            return None
        if message.get("method") == "notifications/cancelled":
            self._stop(message.get("params"))
        is_request = isinstance(message.get("method"), str) and "id" in message
        return message if is_request else None

    def _begin(self, message: Json, tasks: asyncio.TaskGroup) -> None:
        id_ = message["id"]
        if not isinstance(id_, str | int) or id_ in self._in_progress:
            self._refuse(None, INVALID_REQUEST, "a request has an id of its own")
            return
        self._in_progress[id_] = tasks.create_task(self._answer(message))
        self._in_progress[id_].add_done_callback(lambda _task: self._in_progress.pop(id_))

    def _stop(self, params: object) -> None:
        named = params.get("requestId") if isinstance(params, dict) else None
        if isinstance(named, str | int) and named in self._in_progress:
            self._in_progress[named].cancel()

    async def _answer(self, message: Json) -> None:
        request = post(message, self._version)
        async for got in self._driver.iterate(hand_on(request, self._policy)):
            if not isinstance(got, dict):
                self._refuse(message["id"], INTERNAL_ERROR, self._explained(got))
                continue
            if "method" not in got:
                got["id"] = message["id"]  # a refusal at the door does not know it
                if message["method"] == "initialize":
                    self._version = (got.get("result") or {}).get("protocolVersion")
            self._write(json.dumps(got))

    def _refuse(self, id_: str | int | None, code: int, said: str) -> None:
        error = {"code": code, "message": said}
        self._write(json.dumps({"jsonrpc": "2.0", "id": id_, "error": error}))

    def _explained(self, got: ApiResponse | ConnectionLost) -> str:
        where = self._address.shown
        if isinstance(got, ConnectionLost):
            return f"cannot reach the server at {where}: {got.reason}"
        return f"what answers at {where} does not speak MCP (it says {got.status})"


def post(message: Json, agreed: str | None) -> ApiRequest:
    """Make the call that a request becomes; `agreed` is the version an older client speaks."""
    method, params = message["method"], message.get("params")
    params = dict(params) if isinstance(params, dict) else {}
    meta = dict(params["_meta"]) if isinstance(params.get("_meta"), dict) else {}
    headers = {"accept": f"{JSON}, text/event-stream", "content-type": JSON}
    version = meta.get(VERSION, agreed)
    if isinstance(version, str):
        headers["mcp-protocol-version"] = header_value(version)
    headers["mcp-method"] = header_value(method)
    name = params.get(NAMED_BY.get(method, ""))
    if isinstance(name, str):
        headers["mcp-name"] = header_value(name)
    if method == "tools/call":
        meta.setdefault(IDEMPOTENCY_KEY, uuid.uuid4().hex)
        message = {**message, "params": {**params, "_meta": meta}}
    return ApiRequest("POST", PATH, headers=headers, content=json.dumps(message).encode())


def header_value(text: str) -> str:
    """Write a text as the value of a header: as it is, or where that cannot be, in base64."""
    if text.isascii() and text.isprintable() and text == text.strip():
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="


def hand_on(request: ApiRequest, policy: RequestRetryPolicy) -> Effects[None]:
    """Send a request until it is answered. Emits the messages that come back; instead of the last
    one, the answer that is none, or that there was none.
    """
    until = policy.monotonic() + policy.retry_for_s
    attempt = 0
    while True:
        got = yield from open_stream(request, policy.timeout_s)
        if isinstance(got, ApiResponse) and got.status == 200:
            until, attempt = policy.monotonic() + policy.retry_for_s, 0
            broken = yield from _messages(got)
            if broken is None:
                return
            got = broken
        pause = policy.pause_after(got, attempt)
        if is_final(got) or is_permanent(got) or policy.monotonic() + pause > until:
            yield Emit(_refusal_in(got) or got)
            return
        yield Pause(pause)
        attempt += 1


def _messages(answer: ApiResponse) -> Effects[ConnectionLost | None]:
    """Emit what an answer holds, up to the one that the request waits for."""
    streamed = "event-stream" in answer.headers.get("content-type", "")
    stream, whole = EventStreamParser(), b""
    while True:
        piece = yield from read_stream()
        if isinstance(piece, ConnectionLost):
            return piece
        if not streamed:
            whole += piece
            found = [] if piece else [whole.decode("utf-8", "replace")]
        else:
            found = [message.data for message in stream.feed(piece)]
        for text in found:
            message = _object(text)
            if message is not None:
                yield Emit(message)
                if "method" not in message:
                    return None
        if not piece:
            return ConnectionLost("the connection was cut before the whole answer was there")


def _refusal_in(got: ApiResponse | ConnectionLost) -> Json | None:
    """Return the JSON-RPC error that a refusal brings, where it does."""
    message = (
        _object(got.content.decode("utf-8", "replace")) if isinstance(got, ApiResponse) else None
    )
    return message if message is not None and isinstance(message.get("error"), dict) else None


def _object(text: str) -> Json | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


async def lines_of(descriptor: int) -> AsyncIterator[bytes]:
    """Read lines of a pipe, a terminal or a file, until its end.

    They are read by a thread that the process does not wait for when it ends, past Python's own
    buffers, whose lock such a thread would hold then.
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes] = asyncio.Queue()

    def read() -> None:
        while True:
            try:
                piece = os.read(descriptor, 65536)
            except OSError:
                piece = b""
            try:
                loop.call_soon_threadsafe(arrived.put_nowait, piece)
            except RuntimeError:
                return  # nobody listens any more
            if not piece:
                return

    threading.Thread(target=read, name="coatcheck-mcp-stdin", daemon=True).start()
    rest = b""
    while piece := await arrived.get():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line
    if rest:
        yield rest
