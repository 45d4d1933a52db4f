"""What the client's logic asks its driver to do.

The logic of every call is a generator that yields steps and is sent their outcomes: it decides, and
never waits or opens a socket itself. Two drivers carry the steps out, one on threads and one on
asyncio. So there is one place where it is decided what to repeat, how long to pause and when to
give up, and that place can be tested without a server and without time passing.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from coatcheck.client.wire import ApiRequest, ApiResponse, ConnectionLost

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Send a request and read all of the answer: an Answer, or Lost."""

    request: ApiRequest
    timeout_s: float


@dataclass(frozen=True, slots=True)
class OpenStream:
    """Send a request and leave a 200 or 206 open for Read: an Answer (others whole), or Lost."""

    request: ApiRequest
    timeout_s: float


@dataclass(frozen=True, slots=True)
class ReadStream:
    """Read what comes next from what was opened: bytes, b"" at its end, or Lost."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Do nothing for a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Emit:
    """Hand a value to whoever iterates."""

    value: Any


Step: TypeAlias = SendRequest | OpenStream | ReadStream | Pause | Emit
Steps: TypeAlias = Generator[Step, Any, T]


def send(request: ApiRequest, timeout_s: float) -> Steps[ApiResponse | ConnectionLost]:
    """Send a request: what came back, with its type."""
    got: ApiResponse | ConnectionLost = yield SendRequest(request, timeout_s)
    return got


def open_stream(request: ApiRequest, timeout_s: float) -> Steps[ApiResponse | ConnectionLost]:
    """Open a stream: what came back, with its type."""
    got: ApiResponse | ConnectionLost = yield OpenStream(request, timeout_s)
    return got


def read_stream() -> Steps[bytes | ConnectionLost]:
    """Read on in the open stream: what came, with its type."""
    got: bytes | ConnectionLost = yield ReadStream()
    return got
