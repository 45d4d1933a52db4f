"""Server-sent events do not depend on chunk boundaries."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from coatcheck.client.event_stream import EventStreamParser, ServerSentEvent

STREAM = (
    "\ufeffretry: 1500\n\n: still here\n\n"
    'id: 1\nevent: log\ndata: {"said":"naïve 🎟️"}\n\n'
    "id:2\r\nevent:state\r\ndata:one\r\ndata:two\r\n\r\n"
    "event: forgotten\r\r"
    "data\n\n"
    "id: 3\rdata: x\rother: y\r\r"
    "id: 4\ndata: never finished\n"
).encode()
MESSAGES = [
    ServerSentEvent("log", '{"said":"naïve 🎟️"}', "1"),
    ServerSentEvent("state", "one\ntwo", "2"),
    ServerSentEvent("message", "", "2"),
    ServerSentEvent("message", "x", "3"),
]


@given(st.sets(st.integers(0, len(STREAM))))
def test_chunk_boundaries_do_not_change_the_messages(cuts: set[int]) -> None:
    stream = EventStreamParser()
    places = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[begin:end] for begin, end in itertools.pairwise(places)]

    assert [message for piece in pieces for message in stream.feed(piece)] == MESSAGES
    assert stream.retry_ms == 1500


@given(st.binary())
def test_parser_accepts_any_bytes(noise: bytes) -> None:
    list(EventStreamParser().feed(noise))
