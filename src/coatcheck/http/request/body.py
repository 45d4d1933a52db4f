"""Request bodies: bounded in size and time, with strict JSON."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any, cast

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from coatcheck.engine.confirmation import ensure_confirmed
from coatcheck.engine.open_requests import RequestLimits

JSON_LIMIT = 1024 * 1024
# Scope key of the RequestLimits of a request that an app other than ours serves.
LIMITS = "coatcheck.limits"
DEPTH_LIMIT = 64
# How long the next chunk of a body may take.
PIECE_TIMEOUT_S = 20.0


async def read_json(request: Request, limit: int = JSON_LIMIT) -> Any:
    """Read a JSON body; raise HTTPException (4xx) if it is not acceptable."""
    _check_is_json(request)
    return parse_json(await read_bounded(request, limit))


async def read_optional_json(request: Request, limit: int = JSON_LIMIT) -> Any:
    """Read a JSON body; return None if there is no body."""
    body = await read_bounded(request, limit)
    if not body:
        return None
    _check_is_json(request)
    return parse_json(body)


def _check_is_json(request: Request) -> None:
    media_type = media_type_of(request)
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise HTTPException(415, "send the body as JSON, with Content-Type: application/json")


def media_type_of(request: Request) -> str:
    """Return the media type of a body; reject a compressed body."""
    encoding = request.headers.get("content-encoding")
    if encoding is not None and encoding.strip().lower() not in ("identity", ""):
        raise HTTPException(415, "send the body uncompressed, without Content-Encoding")
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_bounded(request: Request, limit: int) -> bytes:
    """Read a body of at most `limit` bytes.

    Reject a longer body without reading the rest, and a body that stalls.
    """
    check_declared_length(request, limit)
    pieces: list[bytes] = []
    size, more, pace = 0, True, _Pace()
    while more:
        message = await _next_piece(request, pace)
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise body_too_large(limit)
        pieces.append(piece)
        more = message.get("more_body", False)
    await ensure_confirmed()  # the key may have been revoked during a slow body
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def check_declared_length(request: Request, limit: int) -> None:
    """Reject a body whose Content-Length is more than `limit` bytes."""
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limit:
        raise body_too_large(limit)


async def stream_body(request: Request) -> AsyncIterator[bytes]:
    """Iterate over the chunks of a body; reject one that stalls or is too slow."""
    more, pace = True, _Pace()
    while more:
        message = await _next_piece(request, pace)
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        if piece := message.get("body", b""):
            yield piece
        more = message.get("more_body", False)
    await ensure_confirmed()


class _Pace:
    """The bytes received of a body, and the time spent waiting for them."""

    __slots__ = ("received", "waited_s")

    def __init__(self) -> None:
        self.received = 0
        self.waited_s = 0.0

    def left_s(self, limits: RequestLimits) -> float:
        """Return how long the next chunk may take before the body is too slow."""
        if not limits.body_min_rate:
            return math.inf
        return limits.body_grace_s + self.received / limits.body_min_rate - self.waited_s


async def _next_piece(request: Request, pace: _Pace) -> Message:
    message = await _receive(request, pace)
    pace.received += len(message.get("body", b""))
    return message


async def _receive(request: Request, pace: _Pace) -> Message:
    # The chunk is usually there already; a timeout is set only if it is not.
    receiving = request.receive().__await__()
    try:
        waits_for = next(receiving)
    except StopIteration as stop:
        return cast("Message", stop.value)
    limits: RequestLimits = request.scope.get(LIMITS) or request.app.state.engine.limits
    left_s = pace.left_s(limits)
    began = time.monotonic()
    try:
        async with asyncio.timeout(min(PIECE_TIMEOUT_S, left_s)):
            return await _StartedAwaitable(receiving, waits_for)
    except TimeoutError:
        message = f"the body stalled for {PIECE_TIMEOUT_S:g} seconds"
        if left_s < PIECE_TIMEOUT_S:
            message = f"the body arrived at less than {limits.body_min_rate:,} bytes a second"
        raise HTTPException(408, message, headers={"Connection": "close"}) from None
    finally:
        pace.waited_s += time.monotonic() - began


class _StartedAwaitable:
    """An awaitable that was started: it resumes with the future that it first waited for."""

    def __init__(self, started: Generator[Any, Any, Message], waits_for: Any) -> None:
        self._started = started
        self._first: tuple[Any, ...] = (waits_for,)

    def __await__(self) -> Generator[Any, Any, Message]:
        return self  # type: ignore[return-value]  # has the methods that `await` uses

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._first:
            [first], self._first = self._first, ()
            return first
        return next(self._started)

    def throw(self, *error: Any) -> Any:
        return self._started.throw(*error)

    def close(self) -> None:
        self._started.close()


def parse_json(body: bytes) -> Any:
    """Parse JSON; reject input that parsers disagree on: duplicate keys, NaN, NUL, deep nesting."""
    try:
        value = _decode(body.decode())
    except RecursionError:
        raise HTTPException(400, f"the JSON is nested deeper than {DEPTH_LIMIT}") from None
    except ValueError as error:
        # The error's own text may quote the body: report only its type and position.
        raise HTTPException(400, _describe(error)) from None
    # Without a backslash no string can contain NUL or a lone surrogate. Without enough brackets the
    # depth cannot be exceeded.
    if b"\\" in body or body.count(b"[") + body.count(b"{") > DEPTH_LIMIT:
        _check_depth_and_text(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("the JSON has an object with a duplicate key")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("the JSON has a number that is too large")
    return number


def _no_constant(name: str) -> None:
    raise ValueError(f"the JSON has {name}, which is not a JSON number")


_decode = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_no_constant, parse_float=_finite
).decode


def _check_depth_and_text(value: Any) -> None:
    level, depth = [value], 0
    while level:
        inside: list[Any] = []
        for item in level:
            if isinstance(item, str):
                _check_text(item)
            elif isinstance(item, dict):
                _check_text(*item)
                inside.append(item.values())
            elif isinstance(item, list):
                inside.append(item)
        depth += bool(inside)
        if depth > DEPTH_LIMIT:
            raise HTTPException(400, f"the JSON is nested deeper than {DEPTH_LIMIT}")
        level = [item for container in inside for item in container]


def _check_text(*texts: str) -> None:
    for text in texts:
        if "\0" in text:
            raise HTTPException(400, "the JSON has a NUL character in a string")
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                message = "the JSON has a lone surrogate in a string"
                raise HTTPException(400, message) from None


def _describe(error: ValueError) -> str:
    match error:
        case json.JSONDecodeError():
            return f"not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        case UnicodeDecodeError():
            return f"not UTF-8: byte {error.start}"
    return str(error)


def body_too_large(limit: int) -> HTTPException:
    """Return the 413 error for a body over the limit. The connection is closed, not drained."""
    return HTTPException(
        413, f"the body is larger than {limit:,} bytes", headers={"Connection": "close"}
    )
