"""The caller's end of the socket: it receives the response that a worker sends.

A `SocketServer` listens on one socket for all waiting callers of its process, starting with the
first. Each pending call has a token (relay/socket_folder.py). A connection with an unknown token is
closed without a reply: the caller left, or got a 202.
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
from coatcheck.relay.frames import ACCEPTED, FrameType, SocketBroken, decode_head, read_frame

log = logging.getLogger(__name__)

# A worker sends its token as soon as it is connected.
TOKEN_S = 5.0
# How much is read ahead of a slow caller.
READ_AHEAD = 64 * 1024


class UpstreamBroke(Exception):
    """The upstream broke, and the worker reported it."""


class PendingCall:
    """A call whose response may arrive over the socket."""

    def __init__(self, socket: str, token: str, pending: dict[str, PendingCall]) -> None:
        self.socket = socket
        self._token = token
        self._pending = pending
        self._head: asyncio.Future[ResponseHead] = asyncio.get_running_loop().create_future()
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        pending[token] = self

    async def head(self) -> ResponseHead:
        """Wait for a worker to connect, and return the head of the response; raises
        SocketBroken.
        """
        return await asyncio.shield(self._head)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Iterate over the body of the response; raises UpstreamBroke, SocketBroken."""
        assert self._reader is not None, "the head comes first"
        while True:
            frame = await read_frame(self._reader)
            match frame.type:
                case FrameType.CHUNK:
                    yield frame.content
                case FrameType.END:
                    return
                case FrameType.BROKEN:
                    raise UpstreamBroke
                case _:
                    raise SocketBroken

    def close(self) -> None:
        """Stop waiting, and disconnect the worker if one is connected."""
        self._pending.pop(self._token, None)
        if not self._head.done():
            self._head.cancel()
        elif not self._head.cancelled():
            self._head.exception()  # marks it as retrieved
        if self._writer is not None:
            self._writer.close()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Accept the connection of the worker, and read the head."""
        self._reader, self._writer = reader, writer
        try:
            writer.write(ACCEPTED)
            frame = await read_frame(reader)
            if frame.type is not FrameType.HEAD:
                raise SocketBroken
            head = decode_head(frame.content)
        except (SocketBroken, ValueError, TypeError):
            if not self._head.done():
                self._head.set_exception(SocketBroken())
            return
        if not self._head.done():
            self._head.set_result(head)


class SocketServer:
    """The socket of one process. It is used on one event loop at a time."""

    def __init__(self) -> None:
        self._pending: dict[str, PendingCall] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._name: asyncio.Future[str] | None = None  # of the socket; empty if there is none
        self._task: asyncio.Task[None] | None = None
        self._folder: Path | None = None

    async def register(self, job_id: str) -> PendingCall | None:
        """Register a call, so that the worker of its job can connect; None if no socket works
        here.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop or self._name is None:
            self._loop, self._name = loop, loop.create_future()
            self._task = loop.create_task(self._listen(self._name), name="coatcheck relay socket")
        name = await asyncio.shield(self._name)
        if self._folder is None or not name:
            return None
        token = socket_folder.make_token(self._folder, name, job_id)
        return None if token is None else PendingCall(name, token, self._pending)

    async def _listen(self, listening: asyncio.Future[str]) -> None:
        name = secrets.token_hex(16)
        folder = self._folder = socket_folder.find_folder()
        if folder is None:
            log.warning("relay socket unavailable: responses are not streamed")
            listening.set_result("")
            return
        path = folder / name
        writers: WeakSet[asyncio.StreamWriter] = WeakSet()

        def on_connect(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> Coroutine[Any, Any, None]:
            writers.add(writer)
            return self._handle_connection(reader, writer)

        try:
            await asyncio.to_thread(socket_folder.remove_stale_sockets, folder)
            server = await asyncio.start_unix_server(on_connect, path, limit=READ_AHEAD)
        except OSError as error:
            log.warning("relay socket failed to listen", extra={"why": error.strerror})
            listening.set_result("")
            return
        listening.set_result(name)
        try:
            # Runs until the loop ends and cancels its remaining tasks.
            await asyncio.Event().wait()
        finally:
            server.close()
            path.unlink(missing_ok=True)
            # A process that connects now, if only to test whether we live, must not hang.
            for writer in writers:
                writer.close()

    async def _handle_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        call = None
        with contextlib.suppress(SocketBroken, TimeoutError):
            async with asyncio.timeout(TOKEN_S):
                frame = await read_frame(reader)
            if frame.type is FrameType.TOKEN:
                # A token is valid for one connection.
                call = self._pending.pop(frame.content.decode("ascii", "replace"), None)
        if call is None:
            writer.close()
        else:
            await call.accept(reader, writer)
