"""An address that is told of jobs, and takes it or not; who asks it for something gets a scan."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver(ThreadingHTTPServer):
    """Answers every call with `status`."""

    status = 204

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/told"


SCAN = bytes(range(256))


class _Call(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "image/tiff")
        self.send_header("content-length", str(len(SCAN)))
        self.end_headers()
        self.wfile.write(SCAN)

    def do_POST(self) -> None:
        assert isinstance(self.server, Receiver)
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(self.server.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Listen on a free port."""
    with Receiver(("127.0.0.1", 0), _Call) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
