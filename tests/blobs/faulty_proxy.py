"""An HTTP proxy that fails on demand: with a server error, or by cutting the connection."""

from __future__ import annotations

import contextlib
import http.client
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

PASSED_ON = ("content-type", "content-length", "etag", "last-modified", "content-range")


class Faulty:
    """A proxy in front of `target`. Requests are counted as `PUT part 2` or `POST`."""

    def __init__(self, target: str) -> None:
        self.asked: Counter[str] = Counter()
        self.faults: dict[str, list[str]] = {}  # the faults of each request, in order
        self.address = ""
        self._target = urlsplit(target)
        self._lock = threading.Lock()

    def fault(self, method: str, path: str) -> str | None:
        """Count a request, and return how it fails."""
        part = re.search(r"partNumber=(\d+)", path)
        name = f"{method} part {part[1]}" if part else method
        with self._lock:
            self.asked[name] += 1
            planned = self.faults.get(name)
            return planned.pop(0) if planned else None

    def forward(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Send the request to the target."""
        host, port = self._target.hostname, self._target.port
        assert host is not None
        connection = http.client.HTTPConnection(host, port, timeout=60)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()


@contextmanager
def faulty_proxy(target: str) -> Iterator[Faulty]:
    """Serve the proxy."""
    proxy = Faulty(target)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            fault = proxy.fault(self.command, self.path)
            if fault == "cut":
                self.close_connection = True
                return
            if fault is not None:
                self._write(int(fault), [], b"")
                return
            self._write(*proxy.forward(self.command, self.path, dict(self.headers), body))

        def _write(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response(status)
            kept = {name.lower(): value for name, value in headers}
            kept.setdefault("content-length", str(len(body)))
            for name in PASSED_ON:
                if name in kept:
                    self.send_header(name, kept[name])
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # the client has closed the connection
                self.wfile.write(body)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - its own names

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    proxy.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
