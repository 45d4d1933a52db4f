"""Requests in ASGI form, and a collector of responses."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from coatcheck.middleware.app_call import Message, Scope
from coatcheck.middleware.authorize import Body


def scope_of(method: str, path: str, headers: dict[str, str] | None = None) -> Scope:
    """Build the scope of a request."""
    raw = [(name.lower().encode(), text.encode()) for name, text in (headers or {}).items()]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": [(b"host", b"app.example"), *raw],
        "client": ("192.0.2.1", 5000),
        "server": ("app.example", 80),
        "state": {},
    }


def body_of(content: bytes = b"", read: list[bytes] | None = None) -> Body:
    """Build a stored body that records reads."""

    async def pieces() -> AsyncIterator[bytes]:
        if read is not None:
            read.append(content)
        if content:
            yield content

    return pieces


class Answer:
    """Collects the messages of a response."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.content = b""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = dict(message["headers"])
        else:
            self.content += message.get("body", b"")

    def as_json(self) -> Any:
        return json.loads(self.content)
