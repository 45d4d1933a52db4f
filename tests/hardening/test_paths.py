"""Path tricks: every endpoint with an id in its path is tried with invalid ids."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.hardening.raw_http import ask, request

TRICKS = (
    "..",
    ".",
    "%2e%2e",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "..%2f..%2fcoatcheck.db",
    "..%5c..%5cwindows",
    "%2f",
    "%2fetc%2fpasswd",
    "%252e%252e%252f",
    "%00",
    "a%00b",
    "%0d%0aX-Evil:%201",
    "%c0%ae%c0%ae%c0%af",  # overlong UTF-8 of ../
    "%ff%fe",
    "%ed%a0%80",  # half a surrogate pair
    "%zz",
    "%",
    "*",
    ";a=b",
    "'%20OR%20'1'='1",
    "%27%3B%20DROP%20TABLE%20jobs%3B--",
    "01M7GDTNAQ55VVM48585MMPRGK%20",
    "\xe9",
    "a" * 5000,
    "%e2%80%ae%f0%9f%92%a9",
)


@pytest.mark.parametrize("trick", TRICKS, ids=range(len(TRICKS)))
def test_hostile_ids_find_and_break_nothing(url: str, trick: str) -> None:
    described = ask(url, request("GET", "/openapi.json")).json()
    calls = list(_calls(described))
    assert len(calls) > 40
    for method, path in calls:
        sent = re.sub(r"\{[^}]*\}", lambda _: trick, path)
        answer = ask(url, request(method, sent, b"{}", b"Content-Type: application/json"))
        shown = f"{method} {path}: {answer.status} {answer.body[:200]!r}"
        assert 400 <= answer.status < 500, shown
        assert b"\nX-Evil" not in answer.head
    assert ask(url, request("GET", "/readyz")).status == 200


def _calls(described: dict[str, Any]) -> Any:
    for path, operations in described["paths"].items():
        if "{" in path:
            for method in operations:
                if method in ("get", "post", "put", "delete"):
                    yield method.upper(), path
