"""A slow service for `coatcheck demo` to stand before. It knows nothing of jobs."""

from __future__ import annotations

import contextlib
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TAKES_S = 1.5
RULE = """[[proxy]]
name = "reports"
match = "POST /reports/*"
target = "http://127.0.0.1:{port}"
wait = "200ms"
"""


class _Service(BaseHTTPRequestHandler):
    """Answers every POST after a while."""

    def do_POST(self) -> None:
        """Make a report, slowly."""
        self.rfile.read(int(self.headers.get("content-length") or 0))
        time.sleep(TAKES_S)
        report = {"report": self.path.rpartition("/")[2], "pages": 42}
        body = json.dumps(report).encode()
        self.send_response(201)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: the demo does."""


@contextlib.contextmanager
def slow_service() -> Iterator[Path]:
    """Run the service; give a config file with the rule that makes its answers durable."""
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), _Service) as server,
        tempfile.TemporaryDirectory(prefix="coatcheck-demo-") as folder,
    ):
        config = Path(folder) / "coatcheck.toml"
        config.write_text(RULE.format(port=server.server_port))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield config
        finally:
            server.shutdown()
