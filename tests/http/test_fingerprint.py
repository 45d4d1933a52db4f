"""What a key belongs to: the request, however its JSON was laid out."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from starlette.requests import Request

from coatcheck.http.request.idempotency import read_idempotency_key


def keyed(path: str) -> Request:
    headers = [(b"host", b"localhost"), (b"idempotency-key", b"k")]
    return Request(
        {
            "type": "http",
            "method": "POST",
            "path": path,
            "headers": headers,
            "query_string": b"",
        }
    )


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "echo", "input": {"b": [1, 2.5, None], "a": "é"}},
        [{"kind": "echo", "input": 1}, {"kind": "echo", "input": {"b": 1, "a": [True]}}],
        [],
    ],
)
def test_it_is_that_of_the_whole_canonical_body(body: Any) -> None:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()

    once = read_idempotency_key(keyed("/v1/jobs"), body)

    assert once is not None
    assert once.key == "k"
    assert once.fingerprint == f"POST /v1/jobs {hashlib.sha256(canonical).hexdigest()}"
