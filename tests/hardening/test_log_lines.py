"""Log injection: whatever a caller sends, every line on stderr is one JSON document."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.processes import running
from tests.hardening.conftest import APP
from tests.hardening.raw_http import Raw, ask, request, submit

FAKE = '{"time":"2030-01-01T00:00:00.000Z","level":"error","message":"forged"}'
WORDS = f'a"}}\r\n{FAKE}\n\x1b[2J\x1b]0;title\x07\u2028\u202e\\'
AS_JSON = b"Content-Type: application/json"


def test_every_log_line_is_one_json_document(tmp_path: Path) -> None:
    settings = {"COATCHECK_LOG_LEVEL": "debug", "COATCHECK_LOG_FORMAT": "json"}
    with running(
        "serve", APP, "--port", "0", "--in-process", folder=tmp_path, **settings
    ) as server:
        url = server.url()
        server.stderr.wait_for("worker started")
        _say_it_everywhere(url)
        job = ask(url, submit("say", WORDS, b"Prefer: wait=60")).json()
        assert job["state"] == "failed"
        assert WORDS in job["error"]["message"]

    lines = [json.loads(line) for line in server.stderr.until_end()]
    assert {"job submitted", "handler failed"} <= {line["message"] for line in lines}
    assert all(line.get("message") != "forged" for line in lines)
    assert not any(letter in line for line in server.stderr.until_end() for letter in "\x1b\u2028")


def _say_it_everywhere(url: str) -> None:
    quoted = "".join(f"%{byte:02x}" for byte in WORDS.encode())
    text = json.dumps(WORDS)
    for body in (
        f'{{"kind":{text}}}',
        f'{{"kind":"echo","queue":{text}}}',
        f'{{"kind":"echo","labels":{{"a":{text}}}}}',
        f'{{"kind":"echo","webhook":{{"url":{text}}}}}',
        f'{{"kind":"echo",{text}:1}}',
        text,
    ):
        ask(url, request("POST", "/v1/jobs", body.encode(), AS_JSON))
        ask(url, request("POST", "/v1/schedules", body.encode(), AS_JSON))
        ask(url, request("POST", "/v1/webhooks", body.encode(), AS_JSON))
    claim = json.dumps({"kinds": [WORDS], "max": 1, "wait": 0, "worker": WORDS}).encode()
    ask(url, request("POST", "/v1/claims", claim, AS_JSON))
    for path in (
        f"/{quoted}",
        f"/v1/jobs/{quoted}",
        f"/v1/jobs?cursor={quoted}",
        f"/v1?{quoted}=1",
    ):
        ask(url, request("GET", path))
    ask(url, request("PUT", f"/v1/tenants/{quoted}", b"{}", AS_JSON))
    ask(url, request("POST", f"/v1/queues/{quoted}/pause", b"{}", AS_JSON))
    ask(url, request("POST", f"/v1/uploads?name={quoted}", b"x", b"Content-Type: text/plain"))
    for header in (b"X-Correlation-Id", b"traceparent", b"Idempotency-Key", b"User-Agent"):
        given = WORDS.replace("\r", " ").replace("\n", " ").encode()
        ask(url, request("GET", "/v1/jobs", None, header + b': "' + given + b'"'))
        ask(url, request("GET", "/v1/jobs", None, header + b': "' + FAKE.encode() + b'"'))
    with Raw(url) as raw:
        raw.send(WORDS.encode())
        raw.rest()
