"""The end of a line where an answer comes from."""

from __future__ import annotations

import asyncio
import contextlib

from coatcheck.relay import socket_folder
from coatcheck.relay.call import ResponseHead
from coatcheck.relay.frames import ACCEPTED, LONGEST, FrameType, frame, write_head

DIAL_S = 2.0
# One who takes nothing for this long counts as gone.
STALL_S = 60.0


class ClientSocket:
    """A line to whoever waits for an answer. Saying something never fails: `is_open` tells."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stall_s: float
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._stall_s = stall_s
        # Nothing is ever said in this direction, but that the other end is gone.
        self._hung_up = asyncio.create_task(reader.read(1))
        self.is_open = True

    async def say(self, said: FrameType, content: bytes = b"") -> None:
        """Say something, as fast as it is taken."""
        if not self.is_open:
            return
        if self._hung_up.done():
            self.close()
            return
        try:
            self._writer.write(frame(said, content))
            async with asyncio.timeout(self._stall_s):
                await self._writer.drain()
        except (OSError, TimeoutError):
            self.close()

    async def chunk(self, content: bytes) -> None:
        """Pass on a piece of the body."""
        for start in range(0, len(content), LONGEST):
            await self.say(FrameType.CHUNK, content[start : start + LONGEST])

    def close(self) -> None:
        """Hang up: what was said is still delivered."""
        self.is_open = False
        self._hung_up.cancel()
        self._writer.close()


async def dial(
    name: str | None, job_id: str, head: ResponseHead, stall_s: float = STALL_S
) -> ClientSocket | None:
    """Dial the process that waits for the answer of a job, and say how it begins; None if nobody
    waits. `name` is that of its socket.
    """
    place = None if name is None else socket_folder.folder()
    if name is None or place is None:
        return None
    path, ticket = place / name, socket_folder.ticket_of(place, name, job_id)
    if ticket is None:
        return None
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(DIAL_S):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(frame(FrameType.TICKET, ticket.encode()))
            if await reader.read(1) != ACCEPTED:
                writer.close()
                return None
        line = ClientSocket(reader, writer, stall_s)
        await line.say(FrameType.HEAD, write_head(head))
        return line
    return None
