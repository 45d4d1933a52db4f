"""The effects that the client's logic yields to its driver.

Every call is a generator that yields effects and receives their outcomes. It decides what to
repeat, how long to pause and when to give up; it never opens a socket or sleeps itself. Two drivers
perform the effects: one on the caller's thread, one on asyncio. The logic is written once, and
tests run it without a server and without waiting.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from coatcheck.client.wire import ApiRequest, ApiResponse, ConnectionLost

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Send a request and read the whole response. Outcome: ApiResponse or ConnectionLost."""

    request: ApiRequest
    timeout_s: float


@dataclass(frozen=True, slots=True)
class OpenStream:
    """Send a request and keep a 200 or 206 response open for ReadStream.

    Outcome: ApiResponse (with its content if the status is another) or ConnectionLost.
    """

    request: ApiRequest
    timeout_s: float


@dataclass(frozen=True, slots=True)
class ReadStream:
    """Read the next chunk of the open stream. Outcome: bytes (b"" at the end) or ConnectionLost."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Sleep, with no stream open."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Emit:
    """Yield a value to the caller's loop."""

    value: Any


Effect: TypeAlias = SendRequest | OpenStream | ReadStream | Pause | Emit
Effects: TypeAlias = Generator[Effect, Any, T]


def send_request(request: ApiRequest, timeout_s: float) -> Effects[ApiResponse | ConnectionLost]:
    """Yield SendRequest and return its typed outcome."""
    outcome: ApiResponse | ConnectionLost = yield SendRequest(request, timeout_s)
    return outcome


def open_stream(request: ApiRequest, timeout_s: float) -> Effects[ApiResponse | ConnectionLost]:
    """Yield OpenStream and return its typed outcome."""
    outcome: ApiResponse | ConnectionLost = yield OpenStream(request, timeout_s)
    return outcome


def read_stream() -> Effects[bytes | ConnectionLost]:
    """Yield ReadStream and return its typed outcome."""
    outcome: bytes | ConnectionLost = yield ReadStream()
    return outcome
