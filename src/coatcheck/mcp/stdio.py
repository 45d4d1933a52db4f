"""Bridge: MCP over stdin and stdout, forwarded to the server's `/mcp`.

Each request becomes one POST with the headers that the protocol requires; the response messages
are written line by line. Requests run concurrently. A request that is lost, because the server
restarts or the network fails, is repeated for a while; a tool call carries an idempotency key, so
it is still one job. If the client cancels a request, its response is dropped. The job continues;
job_cancel or tasks/cancel cancels it.

Notifications and responses from the client are not forwarded: the server sends no requests and has
no sessions. The only state is the protocol version that an older client negotiated.
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
from coatcheck.mcp.constants import IDEMPOTENCY_KEY, INTERNAL_ERROR, INVALID_REQUEST, PATH

# Longer than the server's heartbeat interval in a stream.
TIMEOUT_S = 40.0
RETRY_FOR_S = 30.0
PARSE_ERROR = -32700
VERSION = "io.modelcontextprotocol/protocolVersion"
# Method -> the parameter that its header repeats.
NAME_PARAMETER = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}

Json = dict[str, Any]


class Bridge:
    """The connection of one client."""

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
        self._version: str | None = None  # negotiated by an older client
        self._in_progress: dict[str | int, asyncio.Task[None]] = {}

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        """Serve a client until its input ends and all responses are written."""
        try:
            async with asyncio.TaskGroup() as tasks:
                async for line in lines:
                    message = self._read(line)
                    if message is not None:
                        self._start(message, tasks)
        except BaseExceptionGroup as group:
            if group.subgroup(BrokenPipeError) is not None:
                raise BrokenPipeError from None  # the client is gone
            raise
        finally:
            await self._driver.close()

    def _read(self, line: bytes) -> Json | None:
        if not line.strip():
            return None
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._write_error(None, PARSE_ERROR, "the message is not JSON")
            return None
        if not isinstance(message, dict):
            self._write_error(None, INVALID_REQUEST, "send one JSON-RPC message per line")
            return None
        if message.get("method") == "notifications/cancelled":
            self._cancel(message.get("params"))
        is_request = isinstance(message.get("method"), str) and "id" in message
        return message if is_request else None

    def _start(self, message: Json, tasks: asyncio.TaskGroup) -> None:
        id_ = message["id"]
        if not isinstance(id_, str | int) or id_ in self._in_progress:
            self._write_error(None, INVALID_REQUEST, "a request needs a unique id")
            return
        self._in_progress[id_] = tasks.create_task(self._forward(message))
        self._in_progress[id_].add_done_callback(lambda _task: self._in_progress.pop(id_))

    def _cancel(self, params: object) -> None:
        named = params.get("requestId") if isinstance(params, dict) else None
        if isinstance(named, str | int) and named in self._in_progress:
            self._in_progress[named].cancel()

    async def _forward(self, message: Json) -> None:
        request = build_post(message, self._version)
        async for got in self._driver.iterate(forward(request, self._policy)):
            if not isinstance(got, dict):
                self._write_error(message["id"], INTERNAL_ERROR, self._explain(got))
                continue
            if "method" not in got:
                got["id"] = message["id"]  # an error from the HTTP layer has no id
                if message["method"] == "initialize":
                    self._version = (got.get("result") or {}).get("protocolVersion")
            self._write(json.dumps(got))

    def _write_error(self, id_: str | int | None, code: int, message: str) -> None:
        error = {"code": code, "message": message}
        self._write(json.dumps({"jsonrpc": "2.0", "id": id_, "error": error}))

    def _explain(self, got: ApiResponse | ConnectionLost) -> str:
        url = self._address.shown
        if isinstance(got, ConnectionLost):
            return f"cannot reach the server at {url}: {got.reason}"
        return f"the server at {url} does not support MCP (status {got.status})"


def build_post(message: Json, negotiated: str | None) -> ApiRequest:
    """Build the POST for a request; `negotiated` is the version of an older client."""
    method, params = message["method"], message.get("params")
    params = dict(params) if isinstance(params, dict) else {}
    meta = dict(params["_meta"]) if isinstance(params.get("_meta"), dict) else {}
    headers = {"accept": f"{JSON}, text/event-stream", "content-type": JSON}
    version = meta.get(VERSION, negotiated)
    if isinstance(version, str):
        headers["mcp-protocol-version"] = header_value(version)
    headers["mcp-method"] = header_value(method)
    name = params.get(NAME_PARAMETER.get(method, ""))
    if isinstance(name, str):
        headers["mcp-name"] = header_value(name)
    if method == "tools/call":
        meta.setdefault(IDEMPOTENCY_KEY, uuid.uuid4().hex)
        message = {**message, "params": {**params, "_meta": meta}}
    return ApiRequest("POST", PATH, headers=headers, content=json.dumps(message).encode())


def header_value(text: str) -> str:
    """Encode a text as a header value; use base64 if it is not printable ASCII."""
    if text.isascii() and text.isprintable() and text == text.strip():
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="


def forward(request: ApiRequest, policy: RequestRetryPolicy) -> Effects[None]:
    """Send a request until it is answered, and emit the response messages.

    If there is no valid response, emit the ApiResponse or ConnectionLost instead.
    """
    until = policy.monotonic() + policy.retry_for_s
    attempt = 0
    while True:
        got = yield from open_stream(request, policy.timeout_s)
        if isinstance(got, ApiResponse) and got.status == 200:
            until, attempt = policy.monotonic() + policy.retry_for_s, 0
            lost = yield from _messages(got)
            if lost is None:
                return
            got = lost
        pause = policy.pause_after(got, attempt)
        if is_final(got) or is_permanent(got) or policy.monotonic() + pause > until:
            yield Emit(_error_in(got) or got)
            return
        yield Pause(pause)
        attempt += 1


def _messages(response: ApiResponse) -> Effects[ConnectionLost | None]:
    """Emit the messages of a response, up to the final one."""
    is_stream = "event-stream" in response.headers.get("content-type", "")
    parser, content = EventStreamParser(), b""
    while True:
        chunk = yield from read_stream()
        if isinstance(chunk, ConnectionLost):
            return chunk
        if not is_stream:
            content += chunk
            found = [] if chunk else [content.decode("utf-8", "replace")]
        else:
            found = [message.data for message in parser.feed(chunk)]
        for text in found:
            message = _object(text)
            if message is not None:
                yield Emit(message)
                if "method" not in message:
                    return None
        if not chunk:
            return ConnectionLost("the connection was lost before the response was complete")


def _error_in(got: ApiResponse | ConnectionLost) -> Json | None:
    """Return the JSON-RPC error in a response, if there is one."""
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


async def read_lines(descriptor: int) -> AsyncIterator[bytes]:
    """Read lines from a pipe, a terminal or a file until its end.

    A daemon thread reads them, so that the process can exit while a read blocks. It bypasses
    Python's buffered stdin, whose lock the thread would hold at exit.
    """
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue()

    def read() -> None:
        while True:
            try:
                chunk = os.read(descriptor, 65536)
            except OSError:
                chunk = b""
            try:
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)
            except RuntimeError:
                return  # the event loop is closed
            if not chunk:
                return

    threading.Thread(target=read, name="coatcheck-mcp-stdin", daemon=True).start()
    rest = b""
    while chunk := await chunks.get():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
    if rest:
        yield rest
