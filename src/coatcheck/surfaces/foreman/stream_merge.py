"""A stream folded into the one answer that it would have been without streaming.

Ollama streams lines of JSON, its OpenAI routes server-sent events; either way each piece adds to
the text, and the last brings the counts. What was answered in one piece is taken as it is.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, NamedTuple

from coatcheck.relay.headers import value_of

NDJSON = "application/x-ndjson"
EVENTS = "text/event-stream"
JSON = "application/json"

# What is larger than this is not shown with its job: it is asked for by its own address.
INLINE_BYTES = 256 * 1024
_DATA = b"data:"
_TEXTS = ("content", "thinking", "reasoning", "reasoning_content", "refusal")

Pieces = AsyncIterator[bytes]


class MergedStream(NamedTuple):
    """An answer: as one object, and its text alone."""

    result: Any  # None where nothing could be made of it
    text: str


def media_type_of(headers: Iterable[tuple[str, str]]) -> str:
    """Return what an answer says it is."""
    given = value_of(headers, "content-type") or JSON
    return given.partition(";")[0].strip().lower()


async def fold(pieces: Pieces, media_type: str) -> MergedStream:
    """Fold an answer; raises ValueError where it is not what its media type says."""
    if media_type not in (NDJSON, EVENTS):
        whole = json.loads(b"".join([piece async for piece in pieces]))
        return MergedStream(whole, _text_of(whole))
    folding = _Events() if media_type == EVENTS else _Lines()
    async for line in _lines(pieces):
        folding.add(line)
    whole = folding.whole
    return MergedStream(whole, _text_of(whole))


async def _lines(pieces: Pieces) -> AsyncIterator[bytes]:
    begun = b""
    async for piece in pieces:
        *whole, begun = (begun + piece).split(b"\n")
        for line in whole:
            yield line.strip()
    yield begun.strip()


def last_line_of(tail: bytes) -> dict[str, Any] | None:
    """Return the last line of JSON in the end of a stream of such; None where it is none."""
    for line in reversed(tail.split(b"\n")):
        if line.strip():
            try:
                found = json.loads(line)
            except ValueError:
                return None
            return found if isinstance(found, dict) else None
    return None


class _Lines:
    """Ollama's own stream."""

    def __init__(self) -> None:
        self._whole: dict[str, Any] = {}
        self._texts = _Texts()

    def add(self, line: bytes) -> None:
        """Add a line."""
        if not line:
            return
        chunk = json.loads(line)
        message, response = chunk.pop("message", None), chunk.pop("response", None)
        if message is not None:
            self._texts.add("message", message)
            self._whole["message"] = None  # keeps its place
        if response is not None:
            self._texts.add("", {"response": response, "thinking": chunk.pop("thinking", None)})
            self._whole["response"] = None
        self._whole.update(chunk)

    @property
    def whole(self) -> dict[str, Any]:
        """All of it."""
        found = dict(self._whole)
        if "message" in found:
            found["message"] = self._texts.joined("message")
        if "response" in found:
            found.update(self._texts.joined(""))
        return found


class _Events:
    """The stream of the OpenAI routes."""

    def __init__(self) -> None:
        self._whole: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}
        self._texts = _Texts()

    def add(self, line: bytes) -> None:
        """Add a line; what is no data says nothing."""
        if not line.startswith(_DATA) or (data := line[len(_DATA) :].strip()) == b"[DONE]":
            return
        chunk = json.loads(data)
        for choice in chunk.pop("choices", None) or ():
            index = choice.get("index", 0)
            kept = self._choices.setdefault(index, {"index": index})
            if (delta := choice.pop("delta", None)) is not None:
                self._texts.add(f"{index}", delta)
                kept["message"] = None
            if (text := choice.pop("text", None)) is not None:
                self._texts.add(f"{index} text", {"content": text})
                kept["text"] = ""
            kept.update({name: value for name, value in choice.items() if value is not None})
        self._whole.update(chunk)

    @property
    def whole(self) -> dict[str, Any]:
        """All of it."""
        if not self._choices:
            return dict(self._whole)
        choices = []
        for index in sorted(self._choices):
            choice = dict(self._choices[index])
            if "message" in choice:
                choice["message"] = self._texts.joined(f"{index}")
            if "text" in choice:
                choice["text"] = self._texts.joined(f"{index} text")["content"]
            choices.append(choice)
        kind = str(self._whole.get("object", "")).removesuffix(".chunk")
        return {**self._whole, "object": kind, "choices": choices}


class _Texts:
    """What grows from piece to piece: texts by their names, and calls of tools."""

    def __init__(self) -> None:
        self._parts: dict[str, dict[str, list[str]]] = {}
        self._others: dict[str, dict[str, Any]] = {}

    def add(self, place: str, said: dict[str, Any]) -> None:
        """Add to a place what one piece says."""
        parts = self._parts.setdefault(place, {})
        others = self._others.setdefault(place, {})
        for name, value in said.items():
            if isinstance(value, str) and name in (*_TEXTS, "response"):
                parts.setdefault(name, []).append(value)
            elif name == "tool_calls" and isinstance(value, list):
                _add_calls(others.setdefault(name, []), value)
            elif value is not None:
                others[name] = value

    def joined(self, place: str) -> dict[str, Any]:
        """Return all that was said in a place."""
        texts = {name: "".join(parts) for name, parts in self._parts.get(place, {}).items()}
        return {**self._others.get(place, {}), **texts}


def _add_calls(calls: list[Any], said: list[Any]) -> None:
    """Add calls of tools: whole ones, or those with an index whose arguments come in pieces."""
    for call in said:
        index = call.get("index") if isinstance(call, dict) else None
        begun = next((each for each in calls if index is not None and each["index"] == index), None)
        if begun is None:
            calls.append(call)
            continue
        more = (call.get("function") or {}).get("arguments") or ""
        function = begun.setdefault("function", {})
        function["arguments"] = (function.get("arguments") or "") + more


def _text_of(whole: Any) -> str:
    return next((text for text in _texts_in(whole) if isinstance(text, str)), "")


def _texts_in(whole: Any) -> Iterator[Any]:
    if not isinstance(whole, dict):
        return
    yield whole.get("response")
    if isinstance(message := whole.get("message"), dict):
        yield message.get("content")
    choices = whole.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        yield choices[0].get("text")
        if isinstance(message := choices[0].get("message"), dict):
            yield message.get("content")
