"""The client of the surface, against a real server and against a scripted one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from coatcheck.errors import InvalidInput, JobFailed, StoreUnavailable, Unauthorized, Unreachable
from coatcheck.surfaces.graphs.client import ATTEMPTS, TIMEOUT_S, GraphClient
from tests.cli.processes import running

from .zips import zipped

ZIP = {"Content-Type": "application/zip"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("client")
    with running("serve", "--port", "0", folder=folder) as server:
        server.stderr.wait_for("worker started")
        yield server.url()


def soon(seconds: float) -> None:
    """Sleep less than the server says."""
    threading.Event().wait(min(seconds, 0.2))


def test_client_makes_graphs(server: str, tmp_path: Path) -> None:
    path = tmp_path / "code.zip"
    path.write_bytes(zipped())
    with GraphClient(server, sleep=soon) as client:
        assert client.make(path, "parse")["stats"]["files"] == 3
        found = client.make(zipped(), "call", idempotency_key="again")
        assert client.make(b"whatever", "call", idempotency_key="again") == found
        with pytest.raises(JobFailed) as caught:
            client.make(b"no zip at all")
        assert caught.value.error_code == "archive-not-a-zip"
        with pytest.raises(InvalidInput, match="Idempotency-Key"):
            client.make(zipped(), idempotency_key="x" * 256)
        with pytest.raises(InvalidInput):
            client.make(zipped(), idempotency_key="\0")


def test_log_lines_carry_the_correlation_id(tmp_path: Path) -> None:  # G34
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "tree_sitter_python.py").write_text(
        "def language():\n    raise ValueError('broken')\n"
    )
    settings = {"PYTHONPATH": str(tmp_path / "given"), "COATCHECK_LOG_FORMAT": "json"}
    with running("serve", "--port", "0", folder=tmp_path, **settings) as server:
        server.stderr.wait_for("worker started")
        headers = {"Idempotency-Key": "k", "X-Correlation-Id": "the-request", **ZIP}
        url = f"{server.url()}/v1/graphs/call"
        httpx2.post(url, content=zipped(), headers=headers)
        lines = [
            json.loads(server.stderr.wait_for(text))
            for text in ("archive submitted", "analysis failed")
        ]
    assert [line["correlation_id"] for line in lines] == ["the-request"] * 2


class ScriptedServer:
    """A server that answers what it is told to, and remembers what it was sent."""

    def __init__(self, *answers: tuple[int, dict[str, Any], dict[str, str]] | None) -> None:
        self.sent: list[int] = []
        self.keys: set[str] = set()
        left = list(answers)
        scripted = self

        class Answering(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", "0"))
                scripted.sent.append(len(self.rfile.read(length)))
                scripted.keys.add(self.headers["idempotency-key"])
                answer = left.pop(0) if len(left) > 1 else left[0]
                if answer is None:
                    self.connection.close()
                    return
                status, said, headers = answer
                body = json.dumps(said).encode()
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: Any) -> None:
                pass

            def handle(self) -> None:
                try:
                    super().handle()
                except (ValueError, OSError):
                    return  # it has closed the connection itself

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def __enter__(self) -> ScriptedServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


Said = tuple[int, dict[str, Any], dict[str, str]]


def pending(**more: Any) -> Said:
    return 202, {"status": "pending", "jobId": "graph_1", **more}, {}


DONE: Said = (200, {"status": "completed", "jobId": "graph_1", "result": {"nodes": []}}, {})


def test_archive_is_sent_until_the_server_answers() -> None:  # G36
    pauses: list[float] = []
    busy = (503, {"message": "away"}, {"Retry-After": "7"})
    gone: Said = (404, {"message": "no such key"}, {})
    answers = (None, busy, pending(retryAfter=3), pending(), gone, pending(retryAfter=1), DONE)
    with (
        ScriptedServer(*answers) as scripted,
        GraphClient(scripted.url, sleep=pauses.append) as client,
    ):
        assert client.make(b"archive", "call") == {"nodes": []}
        assert [bool(size) for size in scripted.sent] == [
            True,
            True,
            True,
            False,
            False,
            True,
            False,
        ]
        assert pauses == [10, 7, 3, 10, 0, 1]
        assert len(scripted.keys) == 1


def test_submit_repeats_lost_responses() -> None:
    pauses: list[float] = []
    busy = (503, {"message": "away"}, {"Retry-After": "7"})
    with ScriptedServer(None, busy, pending()) as scripted:
        with GraphClient(scripted.url, sleep=pauses.append) as client:
            assert client.submit(b"archive", "call", "mine") == "graph_1"
        assert (len(scripted.sent), scripted.keys, pauses) == (3, {"mine"}, [1, 7])
    for answer, kind in ((busy, StoreUnavailable), (None, Unreachable)):
        with (
            ScriptedServer(answer) as scripted,
            GraphClient(scripted.url, sleep=lambda _: None) as client,
            pytest.raises(kind),
        ):
            client.submit(b"archive", "call", "mine")


def test_client_gives_up_after_its_timeout() -> None:  # G36
    assert (TIMEOUT_S, ATTEMPTS) == (900, 90)
    pauses: list[float] = []
    with (
        ScriptedServer(pending(retryAfter=1)) as scripted,
        GraphClient(scripted.url, sleep=pauses.append) as client,
    ):
        with pytest.raises(TimeoutError, match="under the key mine"):
            client.make(b"archive", idempotency_key="mine")
        assert (len(scripted.sent), len(pauses)) == (90, 90)
        with pytest.raises(TimeoutError):
            client.make(b"archive", timeout=0.5)


def test_error_responses_raise() -> None:
    for status, kind in ((401, Unauthorized), (413, InvalidInput), (503, StoreUnavailable)):
        with (
            ScriptedServer((status, {"message": "no"}, {})) as scripted,
            GraphClient(scripted.url, sleep=lambda _: None) as client,
            pytest.raises(kind, match="no"),
        ):
            client.make(b"archive", attempts=3)
    with (
        GraphClient("http://127.0.0.1:9", sleep=lambda _: None) as client,
        pytest.raises(Unreachable),
    ):
        client.make(b"archive", attempts=2)
