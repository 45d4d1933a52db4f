"""A service in another process: the path selects its behavior, and files show its progress.

`/reports/<name>` answers at once; `/held/<name>` touches `<name>.asked`, and answers when there is
`<name>.go`; `/streamed/<name>` sends a first piece before it waits. Each call is a line in `calls`.
`/echoed/<name>` answers with what it was sent.
"""

from __future__ import annotations

import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FOLDER = Path(sys.argv[1])
PATIENCE_S = 60.0
_writing = threading.Lock()


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        _, how, name = self.path.split("/")
        if how == "echoed":
            self._echo(int(self.headers["Content-Length"]))
            return
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with _writing, (FOLDER / "calls").open("a") as calls:
            calls.write(f"{self.command} {self.path} {self.headers['Idempotency-Key']}\n")
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        if how == "streamed":
            self.end_headers()
            self._piece(b"first ")
        if how != "reports":
            (FOLDER / f"{name}.asked").touch()
            until = time.monotonic() + PATIENCE_S
            while not (FOLDER / f"{name}.go").exists() and time.monotonic() < until:
                time.sleep(0.02)
        if how != "streamed":
            self.end_headers()
        self._piece(f"answer to {name}".encode())
        self._piece(b"")

    do_GET = do_POST  # noqa: N815 - as the library calls it

    def _echo(self, size: int) -> None:
        kept = self.rfile.read(size)
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(kept)

    def _piece(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    server.daemon_threads = True
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
