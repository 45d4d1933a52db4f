"""Reading request bodies: bounded, and strict about what is JSON."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from coatcheck.errors import InvalidPayload
from coatcheck.model.kind import pointer

Model = TypeVar("Model", bound=BaseModel)

JSON_LIMIT = 1024 * 1024
DEPTH_LIMIT = 64
# How long the next piece of a body may take to come.
PIECE_TIMEOUT_S = 20.0


async def read_json(request: Request, limit: int = JSON_LIMIT) -> Any:
    """Read a JSON body; raises the 4xx that fits whatever is wrong with it."""
    media_type = media_type_of(request)
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise HTTPException(415, "send the job as JSON, with Content-Type: application/json")
    return parse_json(await read_bounded(request, limit))


def media_type_of(request: Request) -> str:
    """Return the media type of a body; a compressed one is refused."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", ""):
        raise HTTPException(415, "send the body as it is, without Content-Encoding")
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_bounded(request: Request, limit: int) -> bytes:
    """Read a body of at most `limit` bytes; a longer one is refused without being read, and one
    that stops coming is not waited for.
    """
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit)
    pieces: list[bytes] = []
    size, more = 0, True
    while more:
        message = await _next_piece(request)
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        pieces.append(piece)
        more = message.get("more_body", False)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def _next_piece(request: Request) -> Message:
    try:
        async with asyncio.timeout(PIECE_TIMEOUT_S):
            return await request.receive()
    except TimeoutError:
        message = f"nothing more of the body came for {PIECE_TIMEOUT_S:g} seconds"
        raise HTTPException(408, message, headers={"Connection": "close"}) from None


def parse_json(body: bytes) -> Any:
    """Parse JSON and refuse what parsers disagree on: duplicate keys, NaN, NUL, great depth."""
    try:
        value = _decode(body.decode())
    except RecursionError:
        raise HTTPException(400, f"the JSON is nested deeper than {DEPTH_LIMIT}") from None
    except ValueError as error:
        # The error's own text may quote the body: give its kind and place only.
        raise HTTPException(400, _describe(error)) from None
    # Without a backslash no string can hold what must not be in one, and without so many brackets
    # nothing is that deep.
    if b"\\" in body or body.count(b"[") + body.count(b"{") > DEPTH_LIMIT:
        _check_depth_and_text(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("the JSON has an object with the same key twice")
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
                message = "the JSON has half a surrogate pair in a string"
                raise HTTPException(400, message) from None


def _describe(error: ValueError) -> str:
    match error:
        case json.JSONDecodeError():
            return f"not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        case UnicodeDecodeError():
            return f"not UTF-8: byte {error.start}"
    return str(error)


def _too_large(limit: int) -> HTTPException:
    return HTTPException(
        413, f"the body is larger than {limit:,} bytes", headers={"Connection": "close"}
    )


async def read_model(request: Request, model: type[Model]) -> Model:
    """Read a body that is as a model says; raises InvalidPayload, saying where it is not."""
    try:
        return model.model_validate(await read_json(request))
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        problems = [(pointer(item["loc"]), item["msg"]) for item in found]
        words = "; ".join(f"{place or '/'}: {detail}" for place, detail in problems[:3])
        raise InvalidPayload(words, problems) from None
