"""The worker's end of the socket: it sends the response to the process of the waiting caller."""

from __future__ import annotations

import asyncio
import contextlib

from coatcheck.relay import socket_folder
from coatcheck.relay.call import ResponseHead
from coatcheck.relay.frames import ACCEPTED, MAX_FRAME, FrameType, encode_frame, encode_head

CONNECT_S = 2.0
# A caller who reads nothing for this long counts as disconnected.
STALL_S = 60.0


class ClientSocket:
    """A connection to the process of a waiting caller. Sending never raises: see `is_open`."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stall_s: float
    ) -> None:
        self._writer = writer
        self._stall_s = stall_s
        # The other end sends nothing more, so a read that returns means that it disconnected.
        self._disconnected = asyncio.create_task(reader.read(1))
        self.is_open = True

    async def send(self, frame_type: FrameType, content: bytes = b"") -> None:
        """Send a frame, as fast as the other end reads."""
        if not self.is_open:
            return
        if self._disconnected.done():
            self.close()
            return
        try:
            self._writer.write(encode_frame(frame_type, content))
            async with asyncio.timeout(self._stall_s):
                await self._writer.drain()
        except (OSError, TimeoutError):
            self.close()

    async def send_chunk(self, content: bytes) -> None:
        """Send a chunk of the body."""
        for start in range(0, len(content), MAX_FRAME):
            await self.send(FrameType.CHUNK, content[start : start + MAX_FRAME])

    def close(self) -> None:
        """Close the connection. Frames that were sent are still delivered."""
        self.is_open = False
        self._disconnected.cancel()
        self._writer.close()


async def connect_to_caller(
    name: str | None, job_id: str, head: ResponseHead, stall_s: float = STALL_S
) -> ClientSocket | None:
    """Connect to the process that waits for a job's response, and send the head; None if no process
    waits. `name` is the name of its socket.
    """
    folder = None if name is None else socket_folder.find_folder()
    if name is None or folder is None:
        return None
    path, token = folder / name, socket_folder.make_token(folder, name, job_id)
    if token is None:
        return None
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(encode_frame(FrameType.TOKEN, token.encode()))
            if await reader.read(1) != ACCEPTED:
                writer.close()
                return None
        socket = ClientSocket(reader, writer, stall_s)
        await socket.send(FrameType.HEAD, encode_head(head))
        return socket
    return None
