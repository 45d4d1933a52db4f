"""Decompression bombs: nothing that arrives is ever unpacked."""

from __future__ import annotations

import gzip
import json
import re

import pytest

from tests.hardening.raw_http import Raw, ask, request

BOMB = gzip.compress(b'{"kind":"echo","input":"' + b"a" * 20_000_000 + b'"}')
FORM = b"Content-Type: multipart/form-data; boundary=b"
PART = b'--b\r\nContent-Disposition: form-data; name="f"'


@pytest.mark.parametrize("coding", [b"gzip", b"deflate", b"br", b"zstd", b"gzip, gzip", b"x"])
def test_every_endpoint_with_a_body_rejects_a_compressed_one(url: str, coding: bytes) -> None:
    described = ask(url, request("GET", "/openapi.json")).json()
    calls = [
        (method.upper(), path, next(iter(operation["requestBody"]["content"])))
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
        if "requestBody" in operation
    ]
    assert {"/v1/jobs", "/v1/batches", "/v1/uploads"} <= {path for _, path, _ in calls}
    packing = b"Content-Encoding: " + coding
    job = ask(url, _submit()).json()["id"]
    for method, path, media_type in calls:
        sent = re.sub(r"\{[^}]*\}", job, path)
        kind = b"Content-Type: " + (b"text/plain" if "*" in media_type else media_type.encode())
        answer = ask(url, request(method, sent, BOMB, kind, packing))
        # a missing resource is reported first, without reading
        refused = answer.status in (404, 415)
        assert refused, (method, path, answer.status, answer.body)
        if "{" not in path:
            assert answer.status == 415


def _submit() -> bytes:
    body = json.dumps({"kind": "echo", "input": 1}).encode()
    return request("POST", "/v1/jobs", body, b"Content-Type: application/json")


HOSTILE_FORMS = {
    "100,000 fields": (PART + b"\r\n\r\nx\r\n") * 100_000 + b"--b--\r\n",
    "100,000 files": (PART + b'; filename="a"\r\n\r\nx\r\n') * 100_000 + b"--b--\r\n",
    "a part with a huge header": PART + b"\r\nX-Long: " + b"a" * 5_000_000,
    "a part with 100,000 headers": PART + b"\r\n" + b"X: y\r\n" * 100_000 + b"\r\n",
    "a huge file name": PART + b'; filename="' + b"a" * 100_000 + b'"\r\n\r\nx\r\n--b--\r\n',
    "a million empty lines before it": b"\r\n" * 1_000_000 + PART,
    "a field beside the file": PART
    + b'; filename="a"\r\n\r\nx\r\n'
    + PART
    + b"\r\n\r\nx\r\n--b--\r\n",
    "a megabyte behind the end": PART + b'; filename="a"\r\n\r\nx\r\n--b--\r\n' + b"a" * 1_000_000,
    "no end": PART + b'; filename="a"\r\n\r\n' + b"x" * 100_000,
    "base64": PART
    + b'; filename="a"\r\nContent-Transfer-Encoding: base64\r\n\r\neA==\r\n--b--\r\n',
}


@pytest.mark.parametrize("what", HOSTILE_FORMS)
@pytest.mark.parametrize("chunked", [False, True], ids=["with its length", "in chunks"])
def test_a_form_with_oversized_fields_is_rejected(url: str, what: str, chunked: bool) -> None:
    form = HOSTILE_FORMS[what]
    with Raw(url) as raw:
        if chunked:
            head = request("POST", "/v1/uploads", None, FORM, b"Transfer-Encoding: chunked")
            raw.send(head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(form), form))
        else:
            raw.send(request("POST", "/v1/uploads", form, FORM))
        answer = raw.read()
    assert answer is not None
    assert answer.status == 400, answer.body


def test_a_nested_form_is_treated_as_a_file(url: str) -> None:
    inner = b"--c\r\nContent-Disposition: file; filename=x\r\n\r\ny\r\n--c--\r\n"
    form = PART + b'; filename="a"\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n' + inner
    answer = ask(url, request("POST", "/v1/uploads", form + b"\r\n--b--\r\n", FORM))
    assert answer.status == 201
    assert answer.json()["size"] == len(inner)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 500_000,
        b'{"a":' * 100_000,
        b'{"kind":"echo","input":' + b"1" * 900_000 + b"}",
        b'{"kind":"echo","input":1e' + b"9" * 900_000 + b"}",
        b'{"kind":"echo","input":{' + b",".join(b'"a":1' for _ in range(100_000)) + b"}}",
    ],
    ids=[
        "brackets",
        "braces",
        "a number of 900,000 digits",
        "an exponent",
        "one key over and over",
    ],
)
def test_expensive_json_is_rejected(url: str, body: bytes) -> None:
    answer = ask(url, request("POST", "/v1/jobs", body, b"Content-Type: application/json"))
    assert answer.status == 400, answer.body
