"""Coatcheck starts after the wrapped app, and stops before it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.middleware.lifespan import Lifespan

pytestmark = pytest.mark.anyio


class Server:
    """The other side of the lifespan protocol."""

    def __init__(self, app: Any, done: list[str], start: Callable[[], Awaitable[None]] | None):
        async def start_ours() -> None:
            done.append("ours starts")
            if start is not None:
                await start()

        async def stop_ours() -> None:
            done.append("ours stops")

        self._lifespan = Lifespan(app, start_ours, stop_ours)
        self._told: asyncio.Queue[Any] = asyncio.Queue()
        self._said: asyncio.Queue[Any] = asyncio.Queue()
        scope = {"type": "lifespan", "state": {}}
        running = self._lifespan.run(scope, self._told.get, self._said.put)
        self._task = asyncio.create_task(running)

    async def tell(self, what: str) -> Any:
        self._told.put_nowait({"type": f"lifespan.{what}"})
        return await self._said.get()

    async def end(self) -> None:
        await self._task


async def run(
    app: Any, done: list[str], start: Callable[[], Awaitable[None]] | None = None
) -> list[Any]:
    server = Server(app, done, start)
    said = [await server.tell("startup")]
    if said[0]["type"] == "lifespan.startup.complete":
        said.append(await server.tell("shutdown"))
    await server.end()
    return said


def app_that(done: list[str], fails_at: str = "") -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for what in ("startup", "shutdown"):
            assert (await receive())["type"] == f"lifespan.{what}"
            done.append(f"app {what}")
            if what == fails_at:
                await send({"type": f"lifespan.{what}.failed", "message": "no database"})
                raise RuntimeError("no database")
            await send({"type": f"lifespan.{what}.complete"})

    return app


async def test_coatcheck_starts_after_the_app_and_stops_before_it() -> None:
    done: list[str] = []
    said = await run(app_that(done), done)
    assert done == ["app startup", "ours starts", "ours stops", "app shutdown"]
    assert [each["type"] for each in said] == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]


async def test_failed_app_startup_is_passed_on() -> None:
    done: list[str] = []
    [said] = await run(app_that(done, "startup"), done)
    assert (said["type"], said["message"]) == ("lifespan.startup.failed", "no database")
    assert done == ["app startup"]


async def test_failed_app_shutdown_is_passed_on() -> None:
    done: list[str] = []
    _, said = await run(app_that(done, "shutdown"), done)
    assert (said["type"], said["message"]) == ("lifespan.shutdown.failed", "no database")


async def test_app_is_stopped_if_coatcheck_cannot_start() -> None:
    done: list[str] = []

    async def fail() -> None:
        raise ConfigurationError("there is no such folder")

    [said] = await run(app_that(done), done, fail)
    assert said["type"] == "lifespan.startup.failed"
    assert "there is no such folder" in said["message"]
    assert done == ["app startup", "ours starts", "app shutdown"]


async def test_app_without_a_lifespan() -> None:
    done: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise ValueError("only HTTP")

    said = await run(app, done)
    assert [each["type"] for each in said] == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]
    assert done == ["ours starts", "ours stops"]
