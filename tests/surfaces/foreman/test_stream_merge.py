"""A stream is merged into the response it would be without streaming."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coatcheck.surfaces.foreman.stream_merge import (
    EVENTS,
    JSON,
    NDJSON,
    MergedStream,
    merge_stream,
    parse_last_line,
)

pytestmark = pytest.mark.anyio


async def cut(content: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


async def merge(content: bytes, media_type: str, size: int = 7) -> MergedStream:
    return await merge_stream(cut(content, size), media_type)


def lines(*chunks: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(chunk).encode() + b"\n" for chunk in chunks)


def events(*chunks: dict[str, Any]) -> bytes:
    said = (b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    return b": hello\n\n" + b"".join(said) + b"data: [DONE]\n\n"


def said(**message: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", **message}, "done": False}


async def test_chat_stream_is_merged() -> None:
    call = {"function": {"name": "look", "arguments": {"at": 1}}}
    stream = lines(
        said(content="Hel", thinking="hm"),
        said(content="lo", thinking="m", tool_calls=[call]),
        {**said(content=""), "done": True, "done_reason": "stop", "eval_count": 2},
    )
    whole, text = await merge(stream, NDJSON)
    message = {"role": "assistant", "content": "Hello", "thinking": "hmm", "tool_calls": [call]}
    assert text == "Hello"
    assert whole == {
        "model": "m",
        "message": message,
        "done": True,
        "done_reason": "stop",
        "eval_count": 2,
    }


async def test_generate_stream_is_merged() -> None:
    stream = lines(
        {"response": "a", "done": False, "thinking": "x"},
        {"response": "b", "done": True, "context": [1]},
    )
    whole, text = await merge(stream, NDJSON)
    assert text == "ab"
    assert whole == {"response": "ab", "thinking": "x", "done": True, "context": [1]}


async def test_openai_chat_events_are_merged() -> None:
    begun = {"index": 0, "id": "c", "function": {"name": "f", "arguments": '{"a"'}}
    more = {"index": 0, "function": {"arguments": ":1}"}}
    head = {"id": "1", "object": "chat.completion.chunk"}
    stream = events(
        {**head, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi"}}]},
        {**head, "choices": [{"index": 0, "delta": {"content": "!", "tool_calls": [begun]}}]},
        {**head, "choices": [{"index": 0, "delta": {"tool_calls": [more]}}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {**head, "choices": [], "usage": {"total_tokens": 3}},
    )
    whole, text = await merge(stream, EVENTS)
    [choice] = whole["choices"]
    assert (text, choice["finish_reason"]) == ("Hi!", "stop")
    assert choice["message"]["role"] == "assistant"
    [call] = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "f", "arguments": '{"a":1}'}
    assert (whole["object"], whole["usage"]) == ("chat.completion", {"total_tokens": 3})


async def test_openai_completion_events_are_merged() -> None:
    stream = events(*({"choices": [{"index": 0, "text": text}]} for text in "abc"))
    assert (await merge(stream, EVENTS)).text == "abc"


async def test_unstreamed_response_is_unchanged() -> None:
    whole = {"choices": [{"message": {"content": "hi"}}]}
    assert await merge(json.dumps(whole).encode(), JSON) == MergedStream(whole, "hi")
    assert (await merge(b"[1]", JSON)).text == ""
    with pytest.raises(ValueError, match="Expecting value"):
        await merge(b"<html>", JSON)


@given(st.lists(st.text(), max_size=8), st.integers(1, 40))
def test_merge_does_not_depend_on_chunk_boundaries(words: list[str], size: int) -> None:
    stream = lines(*(said(content=word) for word in words), {"done": True})
    assert asyncio.run(merge(stream, NDJSON, size)).text == "".join(words)


def test_parse_last_line() -> None:
    assert parse_last_line(b'cut off\n{"error":"x"}\n\n') == {"error": "x"}
    assert parse_last_line(b"nonsense") is None
    assert parse_last_line(b"[]\n") is None
    assert parse_last_line(b"") is None
