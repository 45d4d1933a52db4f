"""Merging a streamed response into the single response that it would be without streaming.

Ollama streams lines of JSON, and its OpenAI routes stream server-sent events. Each piece adds to
the text, and the last one has the counts. A response that was not streamed is used unchanged.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, NamedTuple

from coatcheck.relay.headers import find_header

NDJSON = "application/x-ndjson"
EVENTS = "text/event-stream"
JSON = "application/json"

# Anything larger is not part of the job's view; it has a URL of its own.
INLINE_BYTES = 256 * 1024
_DATA = b"data:"
_TEXTS = ("content", "thinking", "reasoning", "reasoning_content", "refusal")

Pieces = AsyncIterator[bytes]


class MergedStream(NamedTuple):
    """A response as one object, and its text."""

    result: Any
    text: str


def media_type_of(headers: Iterable[tuple[str, str]]) -> str:
    """Return the media type of a response."""
    given = find_header(headers, "content-type") or JSON
    return given.partition(";")[0].strip().lower()


async def merge_stream(pieces: Pieces, media_type: str) -> MergedStream:
    """Merge a response; raises ValueError if it does not match its media type."""
    if media_type not in (NDJSON, EVENTS):
        whole = json.loads(b"".join([piece async for piece in pieces]))
        return MergedStream(whole, _text_of(whole))
    merger = _EventMerger() if media_type == EVENTS else _LineMerger()
    async for line in _lines(pieces):
        merger.add(line)
    whole = merger.result
    return MergedStream(whole, _text_of(whole))


async def _lines(pieces: Pieces) -> AsyncIterator[bytes]:
    partial = b""
    async for piece in pieces:
        *complete, partial = (partial + piece).split(b"\n")
        for line in complete:
            yield line.strip()
    yield partial.strip()


def parse_last_line(tail: bytes) -> dict[str, Any] | None:
    """Parse the last line of a stream of JSON objects; None if it is not an object."""
    for line in reversed(tail.split(b"\n")):
        if line.strip():
            try:
                found = json.loads(line)
            except ValueError:
                return None
            return found if isinstance(found, dict) else None
    return None


class _LineMerger:
    """Merges Ollama's own stream."""

    def __init__(self) -> None:
        self._whole: dict[str, Any] = {}
        self._texts = _TextParts()

    def add(self, line: bytes) -> None:
        """Add a line."""
        if not line:
            return
        chunk = json.loads(line)
        message, response = chunk.pop("message", None), chunk.pop("response", None)
        if message is not None:
            self._texts.add("message", message)
            self._whole["message"] = None  # keeps its position
        if response is not None:
            self._texts.add("", {"response": response, "thinking": chunk.pop("thinking", None)})
            self._whole["response"] = None
        self._whole.update(chunk)

    @property
    def result(self) -> dict[str, Any]:
        """The merged response."""
        found = dict(self._whole)
        if "message" in found:
            found["message"] = self._texts.joined("message")
        if "response" in found:
            found.update(self._texts.joined(""))
        return found


class _EventMerger:
    """Merges the stream of the OpenAI routes."""

    def __init__(self) -> None:
        self._whole: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}
        self._texts = _TextParts()

    def add(self, line: bytes) -> None:
        """Add a line; lines without data are ignored."""
        if not line.startswith(_DATA) or (data := line[len(_DATA) :].strip()) == b"[DONE]":
            return
        chunk = json.loads(data)
        for choice in chunk.pop("choices", None) or ():
            index = choice.get("index", 0)
            merged = self._choices.setdefault(index, {"index": index})
            if (delta := choice.pop("delta", None)) is not None:
                self._texts.add(f"{index}", delta)
                merged["message"] = None
            if (text := choice.pop("text", None)) is not None:
                self._texts.add(f"{index} text", {"content": text})
                merged["text"] = ""
            merged.update({name: value for name, value in choice.items() if value is not None})
        self._whole.update(chunk)

    @property
    def result(self) -> dict[str, Any]:
        """The merged response."""
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


class _TextParts:
    """Fields that grow from piece to piece: texts and tool calls, grouped by their owner."""

    def __init__(self) -> None:
        self._parts: dict[str, dict[str, list[str]]] = {}
        self._others: dict[str, dict[str, Any]] = {}

    def add(self, owner: str, fields: dict[str, Any]) -> None:
        """Add the fields of one piece."""
        parts = self._parts.setdefault(owner, {})
        others = self._others.setdefault(owner, {})
        for name, value in fields.items():
            if isinstance(value, str) and name in (*_TEXTS, "response"):
                parts.setdefault(name, []).append(value)
            elif name == "tool_calls" and isinstance(value, list):
                _add_tool_calls(others.setdefault(name, []), value)
            elif value is not None:
                others[name] = value

    def joined(self, owner: str) -> dict[str, Any]:
        """Return the merged fields of an owner."""
        texts = {name: "".join(parts) for name, parts in self._parts.get(owner, {}).items()}
        return {**self._others.get(owner, {}), **texts}


def _add_tool_calls(calls: list[Any], added: list[Any]) -> None:
    """Add tool calls: complete ones, or indexed ones whose arguments come in pieces."""
    for call in added:
        index = call.get("index") if isinstance(call, dict) else None
        existing = next(
            (each for each in calls if index is not None and each["index"] == index), None
        )
        if existing is None:
            calls.append(call)
            continue
        more = (call.get("function") or {}).get("arguments") or ""
        function = existing.setdefault("function", {})
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
