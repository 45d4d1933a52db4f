"""Responses of servers, and the exit codes for them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cli.shell import Shell


@contextmanager
def answering(status: int, body: str) -> Iterator[tuple[str, list[str | None]]]:
    """A server that always answers the same; returns its address and the credentials it got."""
    credentials: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            credentials.append(self.headers["Authorization"])
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", credentials
        finally:
            server.shutdown()
            thread.join()


PROBLEM = json.dumps({"type": "urn:coatcheck:any", "detail": "so it is \x1b[31m"})


@pytest.mark.parametrize(
    ("status", "body", "exit_code", "said"),
    [
        (401, PROBLEM, 7, "give a key with --api-key"),
        (403, PROBLEM, 7, "so it is"),
        (404, PROBLEM, 3, "so it is"),
        (410, PROBLEM, 3, "so it is"),
        (429, PROBLEM, 5, "so it is"),
        (500, PROBLEM, 1, "so it is"),
        (503, PROBLEM, 5, "so it is"),
        (502, "<html>Bad Gateway</html>", 5, "the server answered 502"),
        (500, '{"detail"', 1, "the server answered 500"),
        (200, "<html>a page</html>", 5, "is not Coatcheck"),
        (200, "[]", 5, "is not Coatcheck"),
        (302, "", 1, "the server answered 302"),
    ],
)
def test_each_response_status_has_an_exit_code(
    tmp_path: Path, status: int, body: str, exit_code: int, said: str
) -> None:
    with answering(status, body) as (url, _):
        ended = Shell(url, tmp_path).run("kinds")

    assert ended.returncode == exit_code, ended.stderr
    [line] = ended.stderr.splitlines()
    assert line.startswith("coatcheck: ")
    assert said in line
    assert "\x1b" not in line


@pytest.mark.parametrize(
    "command", ["queues", "jobs list --json", "jobs show X", "jobs result X", "watch X"]
)
def test_json_of_another_server_is_rejected(tmp_path: Path, command: str) -> None:
    with answering(200, '{"hello": "world"}') as (url, _):
        ended = Shell(url, tmp_path).run(*command.split())

    assert (ended.returncode, ended.stdout) == (5, "")
    assert "is not Coatcheck" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_api_key_is_sent_as_bearer_token(tmp_path: Path) -> None:
    with answering(200, '{"kinds": []}') as (url, credentials):
        shell = Shell(url, tmp_path)
        shell.run("kinds", COATCHECK_API_KEY="ck_1_from-environment")
        shell.run("kinds", "--api-key", "ck_1_from-option")
        shell.run("kinds")

    assert credentials == ["Bearer ck_1_from-environment", "Bearer ck_1_from-option", None]
