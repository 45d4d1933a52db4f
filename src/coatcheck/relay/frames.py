"""What is said on a line, in frames: one byte for what it is, four for how long, and that much.

The one who dials begins with `TICKET`. If somebody waits for that call, they answer with one byte,
`ACCEPTED`, else the line is closed: so the one who dials knows whether there is anybody. Then come
one `HEAD` (JSON: status and headers), any number of `CHUNK`s, and `END`, or `BROKE` where the
upstream broke off. A line that closes without either was lost. Nothing else is said in the other
direction: whoever listens no more closes the line.
"""

from __future__ import annotations

import asyncio
import json
import struct
from enum import IntEnum
from typing import NamedTuple

from coatcheck.relay.call import ResponseHead

_HEADER = struct.Struct(">BI")
LONGEST = 1024 * 1024
ACCEPTED = b"\x06"


class FrameType(IntEnum):
    """What a frame is."""

    TICKET = 1
    HEAD = 2
    CHUNK = 3
    END = 4
    BROKE = 5


class Frame(NamedTuple):
    """One thing that was said."""

    said: FrameType
    content: bytes


class SocketBroken(Exception):
    """The line closed, or carries what is no frame."""


def frame(said: FrameType, content: bytes = b"") -> bytes:
    """Write a frame."""
    return _HEADER.pack(said, len(content)) + content


async def read_frame(reader: asyncio.StreamReader) -> Frame:
    """Read a frame; raises SocketBroken."""
    try:
        kind, length = _HEADER.unpack(await reader.readexactly(_HEADER.size))
        if length > LONGEST:
            raise SocketBroken
        return Frame(FrameType(kind), await reader.readexactly(length) if length else b"")
    except (asyncio.IncompleteReadError, OSError, ValueError) as error:
        raise SocketBroken from error


def write_head(head: ResponseHead) -> bytes:
    """Write how an answer begins."""
    return json.dumps([head.status, head.headers]).encode()


def read_head(content: bytes) -> ResponseHead:
    """Read what `write_head` wrote."""
    status, headers = json.loads(content)
    return ResponseHead(status, [(name, value) for name, value in headers])
