"""Calls that bypass the queue: lists of models, and embeddings, which are quick.

They go straight to a target, and the response is streamed back. Lists of several targets are
merged.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from coatcheck.relay.headers import (
    decode_headers,
    encode_headers,
    end_to_end_headers,
    headers_to_forward,
)
from coatcheck.relay.upstream import (
    CallBroken,
    UpstreamRequest,
    UpstreamResponse,
    UpstreamUnreachable,
    one_chunk,
)
from coatcheck.surfaces.foreman.errors import write_error
from coatcheck.surfaces.foreman.targets import ModelTarget, ModelTargets, NoTargetReachable

# The caller's headers that a target gets.
HEADERS = frozenset({"accept", "content-type", "user-agent"})
# Our own server adds these.
_SERVER_HEADERS = frozenset({"date", "server", "content-length"})


async def merge_lists(targets: ModelTargets, path: str, member: str, key: str) -> Response:
    """Merge the lists of all targets, each entry once."""
    reachable = await targets.check_all(urgent=True)
    if not reachable:
        return _unreachable(targets, path)
    answers = await asyncio.gather(*(_fetch_list(each, path) for each in reachable))
    found = [answer for answer in answers if answer is not None]
    if not found:
        return write_error(502, "no target sent a valid response", path)
    merged: dict[str, Any] = {}
    for answer in found:
        for entry in answer.get(member) or ():
            merged.setdefault(str(entry.get(key)), entry)
    return JSONResponse({**found[0], member: list(merged.values())})


async def _fetch_list(target: ModelTarget, path: str) -> dict[str, Any] | None:
    try:
        status, answer = await target.fetch_json(path)
    except (UpstreamUnreachable, CallBroken):
        return None
    return answer if status == 200 and isinstance(answer, dict) else None


def _unreachable(targets: ModelTargets, path: str) -> Response:
    reasons = "; ".join(f"{target.name}: {target.status.why}" for target in targets)
    return write_error(503, f"the target cannot be reached ({reasons})", path)


async def pass_through(
    request: Request, targets: ModelTargets, path: str, model: str | None, content: bytes | None
) -> Response:
    """Call a path of a target that has the model, or of any target, and stream the response."""
    try:
        if model:
            found = await targets.find(model, urgent=True)
        else:
            found = await targets.check_all(urgent=True)
    except NoTargetReachable as error:
        return write_error(503, str(error), path)
    if not found:
        return _unreachable(targets, path)
    body = None if content is None else one_chunk(content)
    pairs = headers_to_forward(decode_headers(request.scope["headers"]), HEADERS)
    call = UpstreamRequest("GET" if content is None else "POST", path, pairs, len(content or b""))
    return _DirectResponse(found[0], call, body, path)


class _DirectResponse(Response):
    """A response that makes its call while it is sent. The call always ends with it."""

    def __init__(
        self,
        target: ModelTarget,
        call: UpstreamRequest,
        body: AsyncIterator[bytes] | None,
        path: str,
    ) -> None:
        self.background = None
        self._target = target
        self._call = call
        self._body = body
        self._path = path
        self._has_started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Make the call and send the response."""
        calling = asyncio.create_task(self._make_call(scope, receive, send))
        disconnected = asyncio.create_task(_wait_for_disconnect(receive))
        try:
            await asyncio.wait({calling, disconnected}, return_when=asyncio.FIRST_COMPLETED)
            if calling.done():
                calling.result()
        finally:
            calling.cancel()
            disconnected.cancel()
            await asyncio.gather(calling, disconnected, return_exceptions=True)

    async def _make_call(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with self._target.call(self._call, self._body) as response:
                await self._send(response, send)
        except UpstreamUnreachable as error:
            failure = write_error(503, f"the target cannot be reached: {error}", self._path)
            await failure(scope, receive, send)
        except CallBroken as error:
            if self._has_started:
                return  # without the end of the body, which the caller can detect
            failure = write_error(502, f"the call broke off: {error}", self._path)
            await failure(scope, receive, send)

    async def _send(self, response: UpstreamResponse, send: Send) -> None:
        status, headers = response.head
        pairs = [pair for pair in end_to_end_headers(headers) if pair[0] not in _SERVER_HEADERS]
        start = {"type": "http.response.start", "status": status, "headers": encode_headers(pairs)}
        self._has_started = True
        await send(start)
        async for chunk in response.chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
