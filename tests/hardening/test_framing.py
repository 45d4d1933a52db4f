"""Request smuggling: no request can be hidden in another, whatever a proxy in front makes of it.

Each form is followed by a request that submits a job. If the form is ambiguous, the server rejects
it and reads nothing more.
"""

from __future__ import annotations

import json

import pytest

from tests.hardening.raw_http import HOST, JSON, Raw, ask, request, submit

BODY = b'{"kind":"echo","input":1}'
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
HIDDEN = submit("echo", "hidden", labels={"hidden": "yes"})


def _post(headers: bytes, rest: bytes, version: bytes = b"1.1") -> bytes:
    return b"POST /v1/jobs HTTP/" + version + b"\r\n" + HOST + JSON + headers + b"\r\n" + rest


AMBIGUOUS = {
    "a length and chunks": _post(LENGTH + CHUNKED, CHUNKS),
    "chunks and a length": _post(CHUNKED + b"Content-Length: 4\r\n", CHUNKS),
    "two lengths that differ": _post(LENGTH + b"Content-Length: 3\r\n", BODY),
    "two lengths alike": _post(LENGTH + LENGTH, BODY),
    "a list of lengths": _post(b"Content-Length: 25, 25\r\n", BODY),
    "no length in a length": _post(b"Content-Length: \r\n", BODY),
    "a negative length": _post(b"Content-Length: -5\r\n", BODY),
    "a length with a plus": _post(b"Content-Length: +25\r\n", BODY),
    "a length in hexadecimal": _post(b"Content-Length: 0x19\r\n", BODY),
    "a length in two words": _post(b"Content-Length: 2 5\r\n", BODY),
    "a length of 30 digits": _post(b"Content-Length: " + b"9" * 30 + b"\r\n", BODY),
    "a length beyond 64 bits": _post(b"Content-Length: 18446744073709551641\r\n", BODY),
    "xchunked": _post(b"Transfer-Encoding: xchunked\r\n", CHUNKS),
    "chunked, identity": _post(b"Transfer-Encoding: chunked, identity\r\n", CHUNKS),
    "identity": _post(b"Transfer-Encoding: identity\r\n", CHUNKS),
    "gzip, chunked": _post(b"Transfer-Encoding: gzip, chunked\r\n", CHUNKS),
    "chunked twice": _post(b"Transfer-Encoding: chunked, chunked\r\n", CHUNKS),
    "chunked, then identity": _post(CHUNKED + b"Transfer-Encoding: identity\r\n", CHUNKS),
    "identity, then chunked": _post(b"Transfer-Encoding: identity\r\n" + CHUNKED, CHUNKS),
    "quoted": _post(b'Transfer-Encoding: "chunked"\r\n', CHUNKS),
    "a vertical tab": _post(b"Transfer-Encoding: \x0bchunked\r\n", CHUNKS),
    "chunks in HTTP/1.0": _post(CHUNKED, CHUNKS, version=b"1.0"),
    "a space before the colon of a length": _post(b"Content-Length : 25\r\n", BODY),
    "a space before the colon of a coding": _post(
        b"Transfer-Encoding : chunked\r\n" + LENGTH, BODY
    ),
    "a space before a name": _post(b" Content-Length: 25\r\n", BODY),
    "a folded line": _post(LENGTH + b"X-A: b\r\n c\r\n", BODY),
    "a folded coding": _post(b"Transfer-Encoding:\r\n chunked\r\n", CHUNKS),
    "bare line feeds": _post(LENGTH, BODY).replace(b"\r\n", b"\n"),
    "one bare line feed": _post(b"X-A: b\n" + LENGTH, BODY),
    "a bare carriage return": _post(b"X-A: b\r" + LENGTH, BODY),
    "a NUL": _post(b"X-A: b\0c\r\n" + LENGTH, BODY),
    "a chunk size that is none": _post(CHUNKED, b"zz\r\n" + BODY),
    "a negative chunk size": _post(CHUNKED, b"-1\r\n" + BODY),
    "a chunk size with 0x": _post(CHUNKED, b"0x" + CHUNKS),
    "a chunk size with a plus": _post(CHUNKED, b"+" + CHUNKS),
    "a space behind a chunk size": _post(CHUNKED, CHUNKS.replace(b"\r\n", b" \r\n", 1)),
    "a chunk size beyond 64 bits": _post(CHUNKED, b"f" * 17 + b"\r\n" + BODY),
    "chunks with bare line feeds": _post(CHUNKED, CHUNKS.replace(b"\r\n", b"\n")),
    "a line feed in a chunk's extension": _post(CHUNKED, CHUNKS.replace(b"\r\n", b";a\nb\r\n", 1)),
    "a chunk longer than its size": _post(CHUNKED, b"5\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "a length among the trailers": _post(CHUNKED, CHUNKS[:-2] + b"Content-Length: 5\r\n\r\n"),
    "an upgrade with a body": _post(LENGTH + b"Upgrade: x\r\nConnection: Upgrade\r\n", BODY),
    "an upgrade with chunks": _post(CHUNKED + b"Upgrade: x\r\nConnection: Upgrade\r\n", CHUNKS),
    "two hosts": request("GET", "/healthz", None, b"Host: evil.example"),
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "HTTP/2.0 in words": b"GET /healthz HTTP/2.0\r\n" + HOST + b"\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a space in the path": b"GET /healthz x HTTP/1.1\r\n" + HOST + b"\r\n",
    "a NUL in the path": b"GET /heal\0thz HTTP/1.1\r\n" + HOST + b"\r\n",
    "TLS": bytes.fromhex("16030100a5010000a10303") + bytes(64),
}


@pytest.mark.parametrize("shape", AMBIGUOUS)
def test_ambiguous_framing_is_rejected_and_the_rest_is_not_read(url: str, shape: str) -> None:
    before = _jobs(url)
    with Raw(url) as raw:
        raw.send(AMBIGUOUS[shape] + HIDDEN)
        [refusal] = raw.rest()  # and then it is closed

    assert refusal.status in (400, 505)
    assert refusal.json()["type"] == "urn:coatcheck:bad-request"
    assert _jobs(url) == before


@pytest.mark.parametrize(
    "opening",
    [
        _post(b"Content-Length: %d\r\nUpgrade: x\r\nConnection: Upgrade\r\n" % len(HIDDEN), b""),
        _post(CHUNKED + b"Upgrade: h2c\r\nConnection: Upgrade\r\n", b""),
        request("GET", "/healthz", None, b"Upgrade: websocket", b"Connection: Upgrade"),
        request("CONNECT", "/healthz"),
    ],
    ids=["upgrade with a body", "upgrade with chunks", "upgrade alone", "CONNECT"],
)
def test_bytes_after_an_upgrade_are_not_a_request(url: str, opening: bytes) -> None:
    with Raw(url) as raw:
        raw.send(opening)
        assert raw.read() is not None
        raw.send(HIDDEN)
        assert raw.read() is None
    assert _jobs(url, "hidden:yes") == []


def test_a_body_longer_than_declared_ends_the_connection(url: str) -> None:
    with Raw(url) as raw:
        raw.send(_post(LENGTH, BODY + b"xx") + HIDDEN)
        [answer] = raw.rest()
    assert answer.status == 202  # the request was valid, and is answered
    assert _jobs(url, "hidden:yes") == []


def test_a_rejection_is_not_taken_for_an_earlier_response(url: str) -> None:
    with Raw(url) as raw:
        raw.send(request("GET", "/healthz") + request("GET", "/v1/jobs") + b"\0\0\0\0")
        answers = raw.rest()
    assert [answer.json().get("status") for answer in answers] == ["ok"]


@pytest.mark.parametrize(
    "whole",
    [
        _post(LENGTH, BODY),
        _post(CHUNKED, CHUNKS),
        _post(b"TRANSFER-ENCODING:\tChunked\r\n", CHUNKS),
        _post(CHUNKED, CHUNKS.replace(b"\r\n", b";name=value\r\n", 1)),
        b"\r\n" + _post(LENGTH, BODY),
    ],
    ids=["a length", "chunks", "chunks in capitals", "an extension", "an empty line before"],
)
def test_valid_pipelined_requests_are_answered(url: str, whole: bytes) -> None:
    with Raw(url) as raw:
        raw.send(whole + request("GET", "/healthz"))
        first, second = raw.read(), raw.read()
    assert first is not None
    assert second is not None
    assert (first.status, second.json()) == (202, {"status": "ok"})


def test_trailers_do_not_become_headers(url: str) -> None:
    trailer = b"Idempotency-Key: from-a-trailer\r\nContent-Type: text/plain\r\n"
    answers = [ask(url, _post(CHUNKED, CHUNKS[:-2] + trailer + b"\r\n")) for _ in range(2)]
    assert [answer.status for answer in answers] == [202, 202]
    assert "idempotency-replayed" not in answers[1].fields


@pytest.mark.parametrize(
    "opening",
    [
        b"GET /healthz HTTP/1.1\r\nX-Long: ",
        b"GET /",
        request("GET", "/v1/jobs?limit=1") + b"GET /healthz HTTP/1.1\r\nX-Long: ",
        _post(CHUNKED, b"19;"),
        _post(CHUNKED, CHUNKS[:-2] + b"X-Long: "),
    ],
    ids=["a field", "a path", "a field of the second request", "an extension", "a trailer"],
)
def test_endless_input_is_cut_off(url: str, opening: bytes) -> None:
    with Raw(url) as raw:
        raw.send(opening)
        for _ in range(200):  # far more than any buffer in between
            raw.send(b"a" * 65536)
        assert all(answer.status in (200, 400, 431) for answer in raw.rest())


def test_fields_are_limited_in_number_and_in_size(url: str) -> None:
    many = [b"X-Field-%d: 1" % number for number in range(200)]
    long = b"X-Long: " + b"a" * 70_000
    several = [b"X-Long-%d: " % number + b"a" * 8_000 for number in range(10)]
    path = "/v1/jobs?cursor=" + "a" * 70_000
    for sent in (
        request("GET", "/healthz", None, *many),
        request("GET", "/healthz", None, long),
        request("GET", "/healthz", None, *several),
        request("GET", path),
    ):
        answer = ask(url, sent)
        assert answer.status in (400, 431)
        assert answer.fields["connection"] == "close"
    few = [b"X-Field-%d: %s" % (number, b"a" * 400) for number in range(100)]
    assert ask(url, request("GET", "/healthz", None, *few)).status == 200


def test_the_check_for_smuggled_jobs_sees_all_jobs(url: str) -> None:
    """Even if the shared server has more jobs than fit on a page."""
    batch = {"jobs": [{"kind": "echo", "input": 1, "labels": {"many": "yes"}}] * 450}
    made = ask(url, request("POST", "/v1/batches", json.dumps(batch).encode(), JSON.strip()))
    assert made.status == 202, made.body
    assert len(_jobs(url, "many:yes")) == 450
    before = _jobs(url)
    hidden = ask(url, HIDDEN).json()["id"]
    assert set(_jobs(url)) - set(before) == {hidden}
    ended = ask(url, request("GET", f"/v1/jobs/{hidden}?wait=30"))
    assert ended.json()["state"] == "succeeded"
    assert ask(url, request("DELETE", f"/v1/jobs/{hidden}")).status == 200


def _jobs(url: str, label: str = "") -> list[str]:
    """Return the ids of all jobs, page after page."""
    query, found = (f"&label={label}" if label else ""), []
    cursor: str | None = ""
    while cursor is not None:
        after = f"&cursor={cursor}" if cursor else ""
        listed = ask(url, request("GET", f"/v1/jobs?limit=200{query}{after}"))
        assert listed.status == 200, listed.body
        page = listed.json()
        found += [job["id"] for job in page["jobs"]]
        cursor = page["next_cursor"]
    return found
