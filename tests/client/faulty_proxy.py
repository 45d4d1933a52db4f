"""A TCP proxy between a client and its server that does what networks do.

It reads each request whole and then, as its plan says, passes it on or does it harm: drops it
before it is sent, after the server has done it, or in the middle of the answer, delays it, or
sends it twice at the same time. The plan is a list or comes from a seed, so a run can be repeated.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.cli.processes import PATIENCE_S


class Fault(Enum):
    """What can happen to a request."""

    NONE = "passed on"
    REFUSED = "dropped before it is sent"
    UNANSWERED = "dropped when the server has answered"
    CUT = "cut in the middle of the answer"
    DELAYED = "held up for a moment"
    TWICE = "sent twice at the same time"


@dataclass(frozen=True)
class CutAfter:
    """Cut the answer right after this text has passed in it."""

    text: bytes


@dataclass(frozen=True)
class CutAt:
    """Cut the connection where an answer has not begun after this many seconds."""

    seconds: float


Plan = Fault | CutAfter | CutAt


def seeded(seed: int) -> Iterator[Fault]:
    """Plan faults for ever: half of all requests come to harm."""
    chance = random.Random(seed)
    harms = [fault for fault in Fault if fault is not Fault.NONE]
    while True:
        yield Fault.NONE if chance.random() < 0.5 else chance.choice(harms)


@dataclass
class Seen:
    """What came by, and what was done to it."""

    requests: list[str] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    open: int = 0


class FaultyProxy:
    """Listens on a port of its own, on a thread of its own; after its plan it passes all on."""

    def __init__(self, target: str, plan: Iterable[Plan] = (), seed: int = 0) -> None:
        address = urlsplit(target)
        self._target = (address.hostname or "", address.port or 0)
        self._plan = iter(plan)
        self._chance = random.Random(seed)
        self._port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = threading.Condition()
        self.seen = Seen()
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._start())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def wait_until(self, condition: Callable[[Seen], bool], what: str) -> None:
        """Wait until what was seen is as it should be."""
        with self._changed:
            happened = self._changed.wait_for(lambda: condition(self.seen), PATIENCE_S)
        assert happened, f"it never happened: {what}; seen: {self.seen}"

    def go_away(self) -> None:
        """Cut every connection and refuse new ones, as a server that is stopped does."""
        self._call(self._stop())

    def come_back(self) -> None:
        """Listen again, where it did before."""
        self._call(self._start())

    def _call(self, coroutine: object) -> None:
        assert asyncio.iscoroutine(coroutine)
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_S)

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"

    async def _stop(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._note(opened=1)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                await self._serve(reader, writer)
        finally:
            _abort(writer)
            self._tasks.discard(task)
            self._note(opened=-1)

    def _note(self, request: str = "", plan: Plan | None = None, opened: int = 0) -> None:
        with self._changed:
            if plan is not None:
                self.seen.requests.append(request)
                self.seen.plans.append(plan)
            self.seen.open += opened
            self._changed.notify_all()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await _read_request(reader)
        plan = next(self._plan, Fault.NONE)
        self._note(request.partition(b"\r\n")[0].decode(), plan)
        if plan is Fault.REFUSED:
            return
        if plan is Fault.DELAYED:
            await asyncio.sleep(self._chance.uniform(0, 0.05))
        async with contextlib.AsyncExitStack() as stack:
            if plan is Fault.TWICE:
                other = await self._send(stack, request)
                answer = await self._send(stack, request)
                await other.read(1)
            else:
                answer = await self._send(stack, request)
            # A client that hangs up ends this too, as it would without a proxy.
            passing = asyncio.create_task(self._pass_on(plan, answer, writer))
            gone = asyncio.create_task(reader.read(1))
            try:
                await asyncio.wait({passing, gone}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (passing, gone):
                    task.cancel()
                await asyncio.gather(passing, gone, return_exceptions=True)

    async def _send(self, stack: contextlib.AsyncExitStack, request: bytes) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(*self._target)
        stack.callback(_abort, writer)
        writer.write(request)
        await writer.drain()
        return reader

    async def _pass_on(
        self, plan: Plan, answer: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        limit_s = plan.seconds if isinstance(plan, CutAt) else None
        piece = await asyncio.wait_for(answer.read(65536), limit_s)
        if plan is Fault.UNANSWERED:
            return
        if plan is Fault.CUT:
            writer.write(piece[: self._chance.randrange(1, len(piece))])
            await _close(writer)
            return
        passed = b""
        while piece:
            passed += piece
            if isinstance(plan, CutAfter) and plan.text in passed:
                end = passed.index(plan.text) + len(plan.text)
                writer.write(piece[: end - len(passed) + len(piece)])
                await _close(writer)
                return
            writer.write(piece)
            await writer.drain()
            piece = await answer.read(65536)
        await _close(writer)


def _abort(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close a connection when all that was written has left."""
    writer.close()
    await writer.wait_closed()


async def _read_request(reader: asyncio.StreamReader) -> bytes:
    """Read a request whole, and have its connection closed after the answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    headers = dict(line.lower().split(b": ", 1) for line in lines[1:])
    body = await reader.readexactly(int(headers.get(b"content-length", b"0")))
    kept = [line for line in lines if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*kept, b"Connection: close", b"", b""]) + body
