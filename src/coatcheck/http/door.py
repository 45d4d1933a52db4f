"""The one thing every request passes before its route: who may come in, under which id, and what
becomes of an error that nobody expected.

- A correlation id: the caller's, or a new one. It is logged, kept with the job and given back.
- While there are no keys, only loopback clients are let in (guard.py).
- An unexpected error is logged and becomes a 500 that says nothing of it.
- A submit is sent straight to its handler: it is the one call whose number has no bound, and the
  router's search and its layers would cost it as much as all the rest (benchmarks/README.md).
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coatcheck.errors import CoatcheckError
from coatcheck.http.endpoint import Handler
from coatcheck.http.guard import comes_from_here
from coatcheck.http.problem import answer_error, answer_unexpected, problem
from coatcheck.logs import correlation_id

HEADER = b"x-correlation-id"
_USABLE = re.compile(rb"[A-Za-z0-9_.:-]{1,128}")


class _Came(NamedTuple):
    """What the door wants to know of a request."""

    host: bytes | None
    origin: bytes | None
    correlation: str


def _read(headers: Iterable[tuple[bytes, bytes]]) -> _Came:
    host = origin = given = None
    for name, value in headers:
        if name == b"host":
            host = value
        elif name == b"origin":
            origin = value
        elif name == HEADER:
            given = value
    if given is not None and _USABLE.fullmatch(given):
        return _Came(host, origin, given.decode())
    return _Came(host, origin, f"{random.getrandbits(64):016x}")


class Door:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, shortcuts: Mapping[tuple[str, str], Handler]) -> None:
        self._app = app
        self._shortcuts = shortcuts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        came = _read(scope["headers"])
        current = came.correlation
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message["headers"], (HEADER, current.encode())]
            await send(message)

        token = correlation_id.set(current)
        try:
            if not comes_from_here(came.host, came.origin):
                words = "this server has no keys and serves loopback clients only"
                await problem(403, "not-loopback", words)(scope, receive, send_with_id)
                return
            shortcut = self._shortcuts.get((scope["method"], scope["path"]))
            if shortcut is None:
                await self._app(scope, receive, send_with_id)
            else:
                await _answer(shortcut, scope, receive, send_with_id)
        except ClientDisconnect:
            return  # it left in the middle of its request: there is nobody to answer
        except Exception as error:
            if started:
                raise
            await answer_unexpected(error)(scope, receive, send_with_id)
        finally:
            correlation_id.reset(token)


async def _answer(handler: Handler, scope: Scope, receive: Receive, send: Send) -> None:
    request = Request(scope, receive, send)
    try:
        response = await handler(request)
    except (CoatcheckError, HTTPException) as error:
        response = await answer_error(request, error)
    await response(scope, receive, send)
