"""A stream becomes the answer that it would have been in one piece."""

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
    fold,
    last_line_of,
)

pytestmark = pytest.mark.anyio


async def cut(content: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


async def folded(content: bytes, media_type: str, size: int = 7) -> MergedStream:
    return await fold(cut(content, size), media_type)


def lines(*chunks: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(chunk).encode() + b"\n" for chunk in chunks)


def events(*chunks: dict[str, Any]) -> bytes:
    said = (b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    return b": hello\n\n" + b"".join(said) + b"data: [DONE]\n\n"


def said(**message: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", **message}, "done": False}


async def test_a_chat() -> None:
    call = {"function": {"name": "look", "arguments": {"at": 1}}}
    stream = lines(
        said(content="Hel", thinking="hm"),
        said(content="lo", thinking="m", tool_calls=[call]),
        {**said(content=""), "done": True, "done_reason": "stop", "eval_count": 2},
    )
    whole, text = await folded(stream, NDJSON)
    message = {"role": "assistant", "content": "Hello", "thinking": "hmm", "tool_calls": [call]}
    assert text == "Hello"
    assert whole == {
        "model": "m",
        "message": message,
        "done": True,
        "done_reason": "stop",
        "eval_count": 2,
    }


async def test_a_text_that_is_gone_on_with() -> None:
    stream = lines(
        {"response": "a", "done": False, "thinking": "x"},
        {"response": "b", "done": True, "context": [1]},
    )
    whole, text = await folded(stream, NDJSON)
    assert text == "ab"
    assert whole == {"response": "ab", "thinking": "x", "done": True, "context": [1]}


async def test_events() -> None:
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
    whole, text = await folded(stream, EVENTS)
    [choice] = whole["choices"]
    assert (text, choice["finish_reason"]) == ("Hi!", "stop")
    assert choice["message"]["role"] == "assistant"
    [call] = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "f", "arguments": '{"a":1}'}
    assert (whole["object"], whole["usage"]) == ("chat.completion", {"total_tokens": 3})


async def test_a_completion_in_events() -> None:
    stream = events(*({"choices": [{"index": 0, "text": text}]} for text in "abc"))
    assert (await folded(stream, EVENTS)).text == "abc"


async def test_one_piece() -> None:
    whole = {"choices": [{"message": {"content": "hi"}}]}
    assert await folded(json.dumps(whole).encode(), JSON) == MergedStream(whole, "hi")
    assert (await folded(b"[1]", JSON)).text == ""
    with pytest.raises(ValueError, match="Expecting value"):
        await folded(b"<html>", JSON)


@given(st.lists(st.text(), max_size=8), st.integers(1, 40))
def test_however_it_is_cut(words: list[str], size: int) -> None:
    stream = lines(*(said(content=word) for word in words), {"done": True})
    assert asyncio.run(folded(stream, NDJSON, size)).text == "".join(words)


def test_the_last_line() -> None:
    assert last_line_of(b'cut off\n{"error":"x"}\n\n') == {"error": "x"}
    assert last_line_of(b"nonsense") is None
    assert last_line_of(b"[]\n") is None
    assert last_line_of(b"") is None
