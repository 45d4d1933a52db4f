"""Calls that are not queued: what a target has, and embeddings, which are quick.

They go straight to a target and its answer straight back, piece by piece. What is asked of all of
them is put together.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from coatcheck.relay.call import ResponseHead
from coatcheck.relay.headers import end_to_end, for_upstream, pairs_of, raw_of
from coatcheck.relay.upstream import (
    CallBroken,
    TargetUnreachable,
    UpstreamRequest,
    UpstreamResponse,
)
from coatcheck.surfaces.foreman.errors import error
from coatcheck.surfaces.foreman.targets import ModelTarget, ModelTargets, NoTargetReachable

# What a target is told of the caller.
HEADERS = frozenset({"accept", "content-type", "user-agent"})
# The server says these of its own answers.
_SERVERS = frozenset({"date", "server", "content-length"})


async def ask_all(targets: ModelTargets, path: str, member: str, named: str) -> Response:
    """Put together what all targets list; each thing once."""
    there = await targets.look(urgent=True)
    if not there:
        return _away(targets, path)
    answers = await asyncio.gather(*(_listed(each, path) for each in there))
    found = [said for said in answers if said is not None]
    if not found:
        return error(502, "no target answers as it should", path)
    listed: dict[str, Any] = {}
    for said in found:
        for each in said.get(member) or ():
            listed.setdefault(str(each.get(named)), each)
    return JSONResponse({**found[0], member: list(listed.values())})


async def _listed(target: ModelTarget, path: str) -> dict[str, Any] | None:
    try:
        status, said = await target.ask(path)
    except (TargetUnreachable, CallBroken):
        return None
    return said if status == 200 and isinstance(said, dict) else None


def _away(targets: ModelTargets, path: str) -> Response:
    words = "; ".join(f"{target.name}: {target.seen.why}" for target in targets)
    return error(503, f"the target cannot be reached ({words})", path)


async def pass_through(
    request: Request, targets: ModelTargets, path: str, model: str | None, content: bytes | None
) -> Response:
    """Call a path of a target that has the model, or of any target, and stream its answer."""
    try:
        if model:
            found = await targets.having(model, urgent=True)
        else:
            found = await targets.look(urgent=True)
    except NoTargetReachable as away:
        return error(503, str(away), path)
    if not found:
        return _away(targets, path)
    body = None if content is None else _once(content)
    pairs = for_upstream(pairs_of(request.scope["headers"]), HEADERS)
    call = UpstreamRequest("GET" if content is None else "POST", path, pairs, len(content or b""))
    return _Through(found[0], call, body, path)


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


class _Through(Response):
    """An answer that is made while it is sent; the call ends with it, however that happens."""

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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Make the call and send its answer."""
        passing = asyncio.create_task(self._pass_on(scope, receive, send))
        gone = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait({passing, gone}, return_when=asyncio.FIRST_COMPLETED)
            if passing.done():
                passing.result()
        finally:
            passing.cancel()
            gone.cancel()
            await asyncio.gather(passing, gone, return_exceptions=True)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with self._target.call(self._call, self._body) as incoming:
                await self._send(incoming, send)
        except TargetUnreachable as why:
            await error(503, f"the target cannot be reached: {why}", self._path)(
                scope, receive, send
            )
        except CallBroken as why:
            if self._begun:
                return  # without its end, which the caller can tell
            await error(502, f"the call broke off: {why}", self._path)(scope, receive, send)

    _begun = False

    async def _send(self, incoming: UpstreamResponse, send: Send) -> None:
        head: ResponseHead = incoming.head
        pairs = [pair for pair in end_to_end(list(head.headers)) if pair[0] not in _SERVERS]
        start = {"type": "http.response.start", "status": head.status, "headers": raw_of(pairs)}
        self._begun = True
        await send(start)
        async for chunk in incoming.chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
