"""The end of a line where somebody waits for an answer.

A `SocketServer` listens on one socket for all callers of its process, from the first that waits on.
Each call that may be dialled has a ticket (socket_folder.py); a dial with a ticket that is not
there (the caller has left, or was told to come back later) is closed without a word.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any
from weakref import WeakSet

from coatcheck.relay import socket_folder
from coatcheck.relay.call import ResponseHead
from coatcheck.relay.frames import ACCEPTED, FrameType, SocketBroken, read_frame, read_head

log = logging.getLogger(__name__)

# Who dials says at once what for.
TICKET_S = 5.0
# What is read ahead of a slow caller.
READ_AHEAD = 64 * 1024


class UpstreamBroke(Exception):
    """The upstream broke off, and its worker said so."""


class PendingCall:
    """A call whose answer may come down a line. Leaving it hangs up."""

    def __init__(self, socket: str, ticket: str, board: dict[str, PendingCall]) -> None:
        self.socket = socket
        self._ticket = ticket
        self._board = board
        self._head: asyncio.Future[ResponseHead] = asyncio.get_running_loop().create_future()
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        board[ticket] = self

    async def head(self) -> ResponseHead:
        """Wait until somebody dials, and return how the answer begins; raises SocketBroken."""
        return await asyncio.shield(self._head)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Iterate over the rest of the answer; raises UpstreamBroke, SocketBroken."""
        assert self._reader is not None, "the head comes first"
        while True:
            said, content = await read_frame(self._reader)
            match said:
                case FrameType.CHUNK:
                    yield content
                case FrameType.END:
                    return
                case FrameType.BROKE:
                    raise UpstreamBroke
                case _:
                    raise SocketBroken

    def hang_up(self) -> None:
        """Listen no more."""
        self._board.pop(self._ticket, None)
        if not self._head.done():
            self._head.cancel()
        elif not self._head.cancelled():
            self._head.exception()  # nobody has to look at it any more
        if self._writer is not None:
            self._writer.close()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take the line of whoever has dialled."""
        self._reader, self._writer = reader, writer
        try:
            writer.write(ACCEPTED)
            said, content = await read_frame(reader)
            if said is not FrameType.HEAD:
                raise SocketBroken
            head = read_head(content)
        except (SocketBroken, ValueError, TypeError):
            if not self._head.done():
                self._head.set_exception(SocketBroken())
            return
        if not self._head.done():
            self._head.set_result(head)


class SocketServer:
    """The lines of one process; used on one event loop at a time."""

    def __init__(self) -> None:
        self._expected: dict[str, PendingCall] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._name: asyncio.Future[str] | None = None  # of the socket; empty where there is none
        self._server: asyncio.Task[None] | None = None
        self._place: Path | None = None  # the folder of the socket

    async def expect(self, job_id: str) -> PendingCall | None:
        """Be ready for a dial by the worker of a job; None where nobody could dial here."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop or self._name is None:
            self._loop, self._name = loop, loop.create_future()
            self._server = loop.create_task(self._listen(self._name), name="coatcheck lines")
        name = await asyncio.shield(self._name)
        if self._place is None or not name:
            return None
        ticket = socket_folder.ticket_of(self._place, name, job_id)
        return None if ticket is None else PendingCall(name, ticket, self._expected)

    async def _listen(self, listening: asyncio.Future[str]) -> None:
        name = secrets.token_hex(16)
        place = self._place = socket_folder.folder()
        if place is None:
            log.warning("no folder for sockets: answers are passed on when they are complete")
            listening.set_result("")
            return
        path = place / name
        lines: WeakSet[asyncio.StreamWriter] = WeakSet()

        def connected(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> Coroutine[Any, Any, None]:
            lines.add(writer)
            return self._dialled(reader, writer)

        try:
            await asyncio.to_thread(socket_folder.remove_dead, place)
            server = await asyncio.start_unix_server(connected, path, limit=READ_AHEAD)
        except OSError as error:
            log.warning("cannot listen for answers", extra={"why": error.strerror})
            listening.set_result("")
            return
        listening.set_result(name)
        try:
            # Ends with the loop, as all that is left on it then is cancelled.
            await asyncio.Event().wait()
        finally:
            server.close()
            path.unlink(missing_ok=True)
            # Whoever dials at this moment, if only to see whether we live, is not left hanging.
            for writer in lines:
                writer.close()

    async def _dialled(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        expected = None
        with contextlib.suppress(SocketBroken, TimeoutError):
            async with asyncio.timeout(TICKET_S):
                said, content = await read_frame(reader)
            if said is FrameType.TICKET:
                # A ticket is good for one dial.
                expected = self._expected.pop(content.decode("ascii", "replace"), None)
        if expected is None:
            writer.close()
        else:
            await expected.answer(reader, writer)
