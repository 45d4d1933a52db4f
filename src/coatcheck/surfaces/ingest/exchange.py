"""How the process that reads a document talks to the service that has the index (service.py).

A message is the length of a JSON text, the text, and raw bytes: vectors, as float32 in rows. An
answer whose text has a `signal` is an end of the job that the service has decided on.
"""

from __future__ import annotations

import json
import struct
from typing import Any, NoReturn

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from coatcheck.errors import Fail, HandlerSignal, InvalidInput, Retry
from coatcheck.surfaces.ingest.document import Ingested
from coatcheck.surfaces.ingest.index.base import Vectors

_LENGTH = struct.Struct("!I")
SIGNAL = "signal"


class Compared(BaseModel):
    """What a document is, byte by byte; and where it is in the index as that, what it is there."""

    sha256: str
    size: int
    there: Ingested | None = None


class Publication(BaseModel):
    """What the process has found out about a document, to be published with its passages."""

    model_config = ConfigDict(extra="forbid")

    title: str
    format: str = Field(max_length=100)
    language: str | None = Field(default=None, max_length=100)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0)
    passages: int = Field(ge=1)


def pack(fields: dict[str, Any], data: bytes = b"") -> bytes:
    """Return a message."""
    text = json.dumps(fields).encode()
    return _LENGTH.pack(len(text)) + text + data


def unpack(message: bytes) -> tuple[dict[str, Any], bytes]:
    """Read a message; InvalidInput if it is none."""
    try:
        (length,) = _LENGTH.unpack_from(message)
        start = _LENGTH.size + length
        fields = json.loads(message[_LENGTH.size : start])
    except (struct.error, ValueError) as error:
        raise InvalidInput("the message cannot be read") from error
    if not isinstance(fields, dict):
        raise InvalidInput("the message is not an object")
    return fields, message[start:]


def unpack_vectors(data: bytes, rows: int) -> Vectors:
    """Read so many vectors; InvalidInput if the bytes do not divide into them."""
    if rows <= 0 or len(data) % (4 * rows):
        raise InvalidInput(f"{len(data)} bytes are not {rows} vectors")
    return np.frombuffer(data, dtype=np.float32).reshape(rows, -1)


def pack_signal(signal: HandlerSignal) -> bytes:
    """Return how a job ends, as an answer."""
    match signal:
        case Fail():
            return pack({SIGNAL: "fail", "code": signal.code, "message": signal.message})
        case Retry():
            said = {"message": signal.message, "after": signal.after, "counts": signal.counts}
            return pack({SIGNAL: "retry", **said})
    raise signal


def raise_signal(fields: dict[str, Any]) -> None:
    """Raise the signal that an answer holds, if it holds one."""
    if SIGNAL in fields:
        _raise(**fields)


def _raise(signal: str, message: str, **fields: Any) -> NoReturn:
    if signal == "fail":
        raise Fail(fields["code"], message)
    raise Retry(message, after=fields["after"], counts=fields["counts"])
