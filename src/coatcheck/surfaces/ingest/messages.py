"""Messages between the process that reads a document and the worker's service (service.py).

A message is a length, a JSON text of that length and raw bytes: vectors, as rows of float32. A
response whose JSON has a `signal` ends the job: the service decided to fail or to retry it.
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


class Comparison(BaseModel):
    """A document's digest and size, and its result if the index already has these bytes."""

    sha256: str
    size: int
    there: Ingested | None = None


class Publication(BaseModel):
    """A document's properties as the process found them, to publish with its passages."""

    model_config = ConfigDict(extra="forbid")

    title: str
    format: str = Field(max_length=100)
    language: str | None = Field(default=None, max_length=100)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0)
    passages: int = Field(ge=1)


def pack(fields: dict[str, Any], data: bytes = b"") -> bytes:
    """Serialize a message."""
    text = json.dumps(fields).encode()
    return _LENGTH.pack(len(text)) + text + data


def unpack(message: bytes) -> tuple[dict[str, Any], bytes]:
    """Parse a message; raise InvalidInput if it is malformed."""
    try:
        (length,) = _LENGTH.unpack_from(message)
        start = _LENGTH.size + length
        fields = json.loads(message[_LENGTH.size : start])
    except (struct.error, ValueError) as error:
        raise InvalidInput("the message is malformed") from error
    if not isinstance(fields, dict):
        raise InvalidInput("the message is not an object")
    return fields, message[start:]


def unpack_vectors(data: bytes, rows: int) -> Vectors:
    """Parse this number of vectors; raise InvalidInput if the length does not match."""
    if rows <= 0 or len(data) % (4 * rows):
        raise InvalidInput(f"{len(data)} bytes are not {rows} vectors")
    return np.frombuffer(data, dtype=np.float32).reshape(rows, -1)


def pack_signal(signal: HandlerSignal) -> bytes:
    """Serialize a signal that ends the job."""
    match signal:
        case Fail():
            return pack({SIGNAL: "fail", "code": signal.code, "message": signal.message})
        case Retry():
            details = {"message": signal.message, "after": signal.after, "counts": signal.counts}
            return pack({SIGNAL: "retry", **details})
    raise signal


def raise_signal(fields: dict[str, Any]) -> None:
    """Raise the signal in a response, if there is one."""
    if SIGNAL in fields:
        _raise(**fields)


def _raise(signal: str, message: str, **fields: Any) -> NoReturn:
    if signal == "fail":
        raise Fail(fields["code"], message)
    raise Retry(message, after=fields["after"], counts=fields["counts"])
