"""A client of server-sent events that reads them one by one while the stream is open."""

from __future__ import annotations

import asyncio
import json
from types import TracebackType
from typing import Any, NamedTuple, Self

from starlette.applications import Starlette
from starlette.types import Message, Scope

PATIENCE_S = 20.0


class Event(NamedTuple):
    """What came between two blank lines; a comment is an event of that name."""

    name: str
    id: str | None
    data: Any


def parse(block: str) -> Event:
    """Read one block of a stream."""
    if block.startswith(":"):
        return Event("comment", None, block[1:].strip())
    fields = dict(line.split(": ", 1) for line in block.split("\n"))
    if "retry" in fields:
        return Event("retry", None, int(fields["retry"]))
    return Event(fields["event"], fields["id"], json.loads(fields["data"]))


class Stream:
    """One open connection to `/v1/jobs/{id}/events`, or to another stream of a job."""

    def __init__(
        self, app: Starlette, job_id: str, *, of: str = "events", query: str = "", **headers: str
    ) -> None:
        self._app = app
        path = f"/v1/jobs/{job_id}/{of}"
        given = {"host": "localhost", "accept": "text/event-stream", **headers}
        self._scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [
                (name.replace("_", "-").encode(), value.encode()) for name, value in given.items()
            ],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        self._sent: asyncio.Queue[Message] = asyncio.Queue()
        self._left = asyncio.Event()
        self._asked = False
        self._text = ""
        self._task: asyncio.Task[None]
        self.status = 0
        self.headers: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(
            self._app(self._scope, self._receive, self._sent.put), name="stream"
        )
        start = await self._next_message()
        assert start is not None
        self.status = start["status"]
        self.headers = {name.decode(): value.decode() for name, value in start["headers"]}
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.leave()

    async def leave(self) -> None:
        """Hang up, and wait until the server has noticed."""
        self._left.set()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait([self._task])

    async def next(self) -> Event | None:
        """Return the next event as soon as it comes; None at the end."""
        while "\n\n" not in self._text:
            message = await self._next_message()
            if message is None:
                assert not self._text, self._text
                return None
            self._text += message.get("body", b"").decode()
        block, _, self._text = self._text.partition("\n\n")
        return parse(block)

    async def next_told(self) -> Event | None:
        """Return the next event of the job's own."""
        while (event := await self.next()) is not None and event.name in ("retry", "comment"):
            continue
        return event

    async def until(self, name: str) -> list[Event]:
        """Return the job's events up to the first of a name."""
        events = []
        while (event := await self.next_told()) is not None:
            events.append(event)
            if event.name == name:
                break
        return events

    async def rest(self) -> list[Event]:
        """Return the job's events up to the end of the stream."""
        events = []
        while (event := await self.next_told()) is not None:
            events.append(event)
        return events

    async def _next_message(self) -> Message | None:
        getting = asyncio.create_task(self._sent.get())
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait([getting, self._task], return_when=asyncio.FIRST_COMPLETED)
        if getting.done():
            return getting.result()
        getting.cancel()
        self._task.result()
        return None if self._sent.empty() else self._sent.get_nowait()

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}
