"""What is passed on, and what is not."""

from __future__ import annotations

from coatcheck.relay.headers import end_to_end, for_upstream


def test_what_concerns_one_connection_stays_there() -> None:
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
    assert end_to_end(given) == [("x-other", "2")]


def test_order_and_doubles_are_kept() -> None:
    given = [("x-b", "1"), ("x-a", "2"), ("x-b", "3")]
    assert for_upstream(given) == given


def test_what_is_made_anew_is_left_out() -> None:
    given = [(name, "x") for name in ("host", "content-length", "expect", "traceparent", "accept")]
    assert for_upstream(given) == [("accept", "x")]


def test_only_chosen_headers_go_along() -> None:
    given = [("accept", "text/csv"), ("x-noise", "1"), ("prefer", "return=minimal")]
    assert for_upstream(given, frozenset({"accept"})) == [("accept", "text/csv")]


def test_wishes_that_are_not_for_us_go_along() -> None:
    given = [("prefer", "respond-async, return=minimal"), ("prefer", "wait=5, handling=strict")]
    assert for_upstream(given) == [("prefer", "return=minimal, handling=strict")]
