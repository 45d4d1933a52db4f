"""A scripted server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2

from coatcheck import Client

URL = "http://coats.example:8080"
JOB = {"id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "kind": "echo", "state": "queued", "finished_at": None}
Reply = httpx2.Response | Exception | Callable[[httpx2.Request], httpx2.Response]
# What the fixture of this name is: connects to a script.
Play = Callable[..., Client]


class Script:
    """Sends responses in order, repeats the last one, and records the requests."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)
        self.requests: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if isinstance(reply, Exception):
            raise reply
        if not isinstance(reply, httpx2.Response):
            reply = reply(request)
        return httpx2.Response(reply.status_code, headers=reply.headers, content=reply.content)


def answer(status: int, body: Any = None, **headers: str) -> httpx2.Response:
    """Build a response; underscores in header names become dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.Response(status, json=JOB if body is None else body, headers=named)
