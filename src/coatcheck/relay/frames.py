"""The protocol of the socket between a worker and the process of a waiting caller.

A frame is one byte for its type, four bytes for its length, and the content. The worker connects
and sends `TOKEN`. If a caller waits for that call, the other end replies with one byte, `ACCEPTED`;
otherwise it closes the connection, so the worker learns whether anybody waits. The worker then
sends one `HEAD` (JSON: status and headers), any number of `CHUNK`s, and `END`; or `BROKEN` if the
upstream broke. A connection that closes without either was lost. Nothing else is sent in the other
direction: a caller who leaves closes the connection.
"""

from __future__ import annotations

import asyncio
import json
import struct
from enum import IntEnum
from typing import NamedTuple

from coatcheck.relay.call import ResponseHead

_HEADER = struct.Struct(">BI")
MAX_FRAME = 1024 * 1024
ACCEPTED = b"\x06"


class FrameType(IntEnum):
    """The type of a frame."""

    TOKEN = 1
    HEAD = 2
    CHUNK = 3
    END = 4
    BROKEN = 5


class Frame(NamedTuple):
    """A decoded frame."""

    type: FrameType
    content: bytes


class SocketBroken(Exception):
    """The connection closed, or carried invalid data."""


def encode_frame(frame_type: FrameType, content: bytes = b"") -> bytes:
    """Encode a frame."""
    return _HEADER.pack(frame_type, len(content)) + content


async def read_frame(reader: asyncio.StreamReader) -> Frame:
    """Read a frame; raises SocketBroken."""
    try:
        frame_type, length = _HEADER.unpack(await reader.readexactly(_HEADER.size))
        if length > MAX_FRAME:
            raise SocketBroken
        return Frame(FrameType(frame_type), await reader.readexactly(length) if length else b"")
    except (asyncio.IncompleteReadError, OSError, ValueError) as error:
        raise SocketBroken from error


def encode_head(head: ResponseHead) -> bytes:
    """Encode the head of a response."""
    return json.dumps([head.status, head.headers]).encode()


def decode_head(content: bytes) -> ResponseHead:
    """Decode the head of a response; raises ValueError, TypeError."""
    status, headers = json.loads(content)
    return ResponseHead(status, [(name, value) for name, value in headers])
