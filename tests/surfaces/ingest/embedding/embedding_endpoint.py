"""A local embedding endpoint with the paths of Ollama and OpenAI, and vectors of length four."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "tiny"


def vector_of(text: str) -> list[float]:
    return [float(len(text)), 1.0, float(text.count("a")), -0.5]


class Endpoint:
    """Records requests, and can be told to respond with an error."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.authorization: list[str | None] = []
        self.instead: tuple[int, bytes] | None = None
        self.url = ""

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        if self.instead is not None:
            return self.instead
        if body["model"] != MODEL:
            # The error formats of Ollama and OpenAI.
            words = f'model "{body["model"]}" not found, try pulling it first'
            error: Any = words if path == "/api/embed" else {"message": words, "type": "invalid"}
            return 404, json.dumps({"error": error}).encode()
        vectors = [vector_of(text) for text in body["input"]]
        if path == "/api/embed":
            return 200, json.dumps({"model": MODEL, "embeddings": vectors}).encode()
        if path == "/v1/embeddings":
            data = [{"index": place, "embedding": each} for place, each in enumerate(vectors)]
            return 200, json.dumps({"object": "list", "data": data[::-1]}).encode()
        return 404, b"404 page not found"


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    """Serve an endpoint for the duration of a test."""
    it = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            it.asked.append((self.path, body))
            it.authorization.append(self.headers["Authorization"])
            status, content = it.answer(self.path, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    it.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield it
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
