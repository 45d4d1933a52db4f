"""A client of an app with the middleware, served in the test's own loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2

PATIENCE_S = 60.0


class LifespanClient:
    """The server's end of an app's lifespan."""

    def __init__(self, app: Any, state: dict[str, Any]) -> None:
        self._told: asyncio.Queue[Any] = asyncio.Queue()
        self._said: asyncio.Queue[Any] = asyncio.Queue()
        scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": state}
        self._task = asyncio.create_task(app(scope, self._told.get, self._said.put))

    async def send(self, what: str) -> None:
        self._told.put_nowait({"type": f"lifespan.{what}"})
        said = await self._said.get()
        assert said["type"] == f"lifespan.{what}.complete", said


@contextlib.asynccontextmanager
async def open_client(app: Any, *, lifespan: bool = True) -> AsyncIterator[httpx2.AsyncClient]:
    """Serve an app, and yield a client of it."""
    state: dict[str, Any] = {}
    lifespan_client = LifespanClient(app, state) if lifespan else None
    if lifespan_client is not None:
        await lifespan_client.send("startup")

    async def with_state(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "state": dict(state)}, receive, send)

    transport = httpx2.ASGITransport(with_state)
    try:
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://app.example", timeout=PATIENCE_S
        ) as client:
            yield client
    finally:
        if lifespan_client is not None:
            await lifespan_client.send("shutdown")
