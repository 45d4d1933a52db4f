"""Which headers are forwarded."""

from __future__ import annotations

from coatcheck.relay.headers import end_to_end_headers, headers_to_forward


def test_hop_by_hop_headers_are_dropped() -> None:
    given = [
        ("connection", "close, X-Mine"),
        ("x-mine", "1"),
        ("keep-alive", "timeout=5"),
        ("transfer-encoding", "chunked"),
        ("te", "trailers"),
        ("trailer", "x-sum"),
        ("upgrade", "h2c"),
        ("proxy-authorization", "Basic eA=="),
        ("x-other", "2"),
    ]
    assert end_to_end_headers(given) == [("x-other", "2")]


def test_order_and_repeated_headers_are_preserved() -> None:
    given = [("x-b", "1"), ("x-a", "2"), ("x-b", "3")]
    assert headers_to_forward(given) == given


def test_generated_headers_are_not_forwarded() -> None:
    given = [(name, "x") for name in ("host", "content-length", "expect", "traceparent", "accept")]
    assert headers_to_forward(given) == [("accept", "x")]


def test_only_selected_headers_are_forwarded() -> None:
    given = [("accept", "text/csv"), ("x-noise", "1"), ("prefer", "return=minimal")]
    assert headers_to_forward(given, frozenset({"accept"})) == [("accept", "text/csv")]


def test_upstream_preferences_are_forwarded() -> None:
    given = [("prefer", "respond-async, return=minimal"), ("prefer", "wait=5, handling=strict")]
    assert headers_to_forward(given) == [("prefer", "return=minimal, handling=strict")]
