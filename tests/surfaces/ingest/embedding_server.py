"""A local OpenAI-compatible embedding endpoint that records its requests.

The vector of a text depends only on its words, so texts with the same words are near each other.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

DIMENSIONS = 48


class EmbeddingServer:
    """A server on a thread of this process, on a free local port."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []  # in order of arrival, with or without a response
        self.on_call: Callable[[list[str]], None] = lambda texts: None
        self.down = False
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that point a Coatcheck server to this endpoint."""
        return {
            "INGEST_EMBEDDER": "openai",
            "INGEST_EMBED_URL": f"http://127.0.0.1:{self._http.server_address[1]}",
            "INGEST_EMBED_MODEL": "words",
        }

    def times_embedded(self, marker: str) -> list[int]:
        """Return how often each text with a marker was requested, in order of first request."""
        counted: dict[str, int] = {}
        for call in self.calls:
            for text in call:
                if marker in text:
                    counted[text] = counted.get(text, 0) + 1
        return list(counted.values())

    def answer(self, texts: list[str]) -> tuple[int, Any]:
        """Embed texts."""
        with self._lock:
            self.calls.append(texts)
        self.on_call(texts)
        if self.down:
            return 503, {"error": {"message": "not now"}}
        data = [
            {"object": "embedding", "index": number, "embedding": vector_of(text)}
            for number, text in enumerate(texts)
        ]
        return 200, {"object": "list", "model": "words", "data": data}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                asked = json.loads(self.rfile.read(length))
                given = asked["input"]
                status, said = server.answer([given] if isinstance(given, str) else given)
                body = json.dumps(said).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    self.close_connection = True  # the client is gone

            def log_message(self, *_: object) -> None: ...

        return Handler


def vector_of(text: str) -> list[float]:
    """Return equal vectors for equal words."""
    vector = [0.0] * DIMENSIONS
    for word in text.lower().split():
        digest = hashlib.sha256(word.encode()).digest()
        vector[digest[0] % DIMENSIONS] += 1.0
        vector[digest[1] % DIMENSIONS] -= 0.5
    return vector if any(vector) else [1.0] * DIMENSIONS
