"""Header injection: input of callers and handlers never starts a response header."""

from __future__ import annotations

import json

import pytest

from tests.hardening.raw_http import Answer, Raw, ask, request, submit

EVIL = "\r\nX-Evil: 1"


def _is_clean(answer: Answer) -> bool:
    lines = answer.head.split(b"\r\n")
    printable = all(0x20 <= byte < 0x7F for line in lines for byte in line)
    return printable and not any(line.lower().startswith(b"x-evil") for line in lines)


@pytest.mark.parametrize(
    "given",
    [
        b"a b",
        b'"quoted"',
        b"\xff\xfe",
        b"a\tb",
        b"",
        b"x" * 129,
        b"%0d%0aX-Evil: 1",
        b"a;b",
        b"<b>",
    ],
)
def test_an_invalid_correlation_id_is_replaced(url: str, given: bytes) -> None:
    answer = ask(url, request("GET", "/v1/jobs", None, b"X-Correlation-Id: " + given))
    assert _is_clean(answer)
    assert answer.fields["x-correlation-id"].encode() != given
    assert len(answer.fields["x-correlation-id"]) == 16


@pytest.mark.parametrize(
    "header",
    [
        b"X-Correlation-Id: a\rX-Evil: 1",
        b"X-Correlation-Id: a\nX-Evil: 1",
        b"X-Correlation-Id: a\0b",
        b"X-Correlation-Id: a\x1b[31m",
        b"Prefer: wait=1\rX-Evil: 1",
        b"Origin: http://localhost\0",
    ],
)
def test_a_header_with_control_characters_is_rejected(url: str, header: bytes) -> None:
    answer = ask(url, request("GET", "/v1/jobs", None, header))
    assert answer.status == 400
    assert _is_clean(answer)


@pytest.mark.parametrize(
    ("given", "applied"),
    [
        (b'wait=0; x="\xff"', "wait=0"),
        (b"respond-async, X-Evil: 1", "respond-async"),
        (b"wait=0%0d%0aX-Evil: 1", ""),
        (b'foo="bar", wait="0"', "wait=0"),
    ],
)
def test_preference_applied_echoes_known_preferences_only(
    url: str, given: bytes, applied: str
) -> None:
    answer = ask(url, submit("echo", 1, b"Prefer: " + given))
    assert answer.status == 202
    assert _is_clean(answer)
    assert answer.fields.get("preference-applied", "") == applied


def test_file_names_and_types_cannot_inject_headers(url: str) -> None:
    hostile = [
        {"name": "a" + EVIL, "content_type": "text/plain"},
        {"name": 'a"; filename="b', "content_type": "text/plain"},
        {"name": "a\0.txt", "content_type": "text/plain"},
        {"name": "../../etc/passwd", "content_type": "text/plain"},
        {"name": "é.txt", "content_type": "text/plain"},
        {"name": "a.txt", "content_type": "text/plain" + EVIL},
        {"name": "a.txt", "content_type": "text/html; charset=" + EVIL},
        {"name": "a.txt", "content_type": 'text/html; charset="\0"'},
        {"name": "a.txt", "content_type": "text/html\n"},
    ]
    for file in hostile:
        answer = ask(url, submit("leave", file, b"Prefer: wait=60"))
        job = answer.json()
        if "id" not in job:  # rejected: NUL is not valid in our JSON
            assert answer.status == 400
            continue
        assert (job["state"], job["artifacts"]) == ("failed", []), file

    file = {"name": "a.svg", "content_type": 'image/svg+xml; charset="utf-8"'}
    job = ask(url, submit("leave", file, b"Prefer: wait=60")).json()
    answer = ask(url, request("GET", f"/v1/jobs/{job['id']}/artifacts/a.svg"))
    assert answer.fields["content-disposition"] == 'attachment; filename="a.svg"'
    assert _is_clean(answer)


@pytest.mark.parametrize(
    ("query", "content_type", "body", "status"),
    [
        ("?name=a%0d%0aX-Evil:%201", b"text/plain", b"x", 400),
        ("?name=a%00b", b"text/plain", b"x", 400),
        ("?name=..", b"text/plain", b"x", 400),
        ("?name=%2e%2e%2fjobs.db", b"text/plain", b"x", 201),
        ("", b'text/plain; x="\xff"', b"x", 400),
        ("", b"text/plain x", b"x", 400),
        (
            "",
            b"multipart/form-data; boundary=b",
            (
                b'--b\r\nContent-Disposition: form-data; name="f"; filename="a%0d%0aX"\r\n'
                b"Content-Type: text/plain\x7f\r\n\r\nx\r\n--b--\r\n"
            ),
            400,
        ),
    ],
)
def test_upload_names_and_types_cannot_inject_headers(
    url: str, query: str, content_type: bytes, body: bytes, status: int
) -> None:
    sent = request("POST", f"/v1/uploads{query}", body, b"Content-Type: " + content_type)
    answer = ask(url, sent)
    assert answer.status == status, answer.body
    assert _is_clean(answer)
    if status == 201:
        assert answer.json()["name"] == "jobs.db"  # the path before it must not be revealed


def test_locations_contain_generated_ids_only(url: str) -> None:
    job = ask(url, submit("echo", EVIL, labels={"x": "y"}))
    assert job.fields["location"] == f"/v1/jobs/{job.json()['id']}"
    definition = json.dumps({"kind": "echo", "input": 1, "every": "1h"}).encode()
    for name in ("a%0d%0aX-Evil:%201", "a%00", "%22", "a%20b"):
        put = request("PUT", f"/v1/schedules/{name}", definition, b"Content-Type: application/json")
        answer = ask(url, put)
        assert 400 <= answer.status < 500
        assert _is_clean(answer)


def test_responses_do_not_identify_the_server(url: str) -> None:
    with Raw(url) as raw:
        raw.send(request("GET", "/healthz") + b"\0")
        for answer in raw.rest():
            assert "server" not in answer.fields
            assert b"uvicorn" not in answer.head + answer.body
