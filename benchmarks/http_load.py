"""A load generator for our API, as thin as Python allows: it shares the cores with the server.

It runs as a separate process and prints one line of JSON:

- with `--rate 0` every connection sends its next request when the last one was answered;
- with a rate, requests follow a fixed schedule, and a latency counts from the time a request was
  due, so that a stall shows in all the requests it delayed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections import deque
from typing import Any, cast

from benchmarks.environments import ROOT
from coatcheck.cli.server.runtime import new_event_loop

TIMEOUT_S = 120


def load(port: int, **options: Any) -> dict[str, Any]:
    """Run the load generator as a process and return its results; no request may fail."""
    command = [sys.executable, "-m", "benchmarks.http_load", "--port", str(port)]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=True
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    if answer["refused"]:
        raise RuntimeError(f"{answer['refused']} requests were refused or lost")
    return answer


class Connection(asyncio.Protocol):
    """A kept-alive connection with one request in flight; due requests queue."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._transport: asyncio.Transport
        self._due: deque[float] = deque()
        self._sent = 0.0
        self._busy = False
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def ask(self, due: float) -> None:
        """Send a request now, or once those before it are answered."""
        self._load.asked()
        self._send(due)

    def _send(self, due: float) -> None:
        if self._busy:
            self._due.append(due)
            return
        self._busy, self._sent = True, due
        self._transport.write(self._load.request)

    def data_received(self, data: bytes) -> None:
        """Count a response once its whole body has arrived."""
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return
        self._buffer = body[length:]
        self._busy = False
        self._load.answered(self, head[9:12], time.monotonic() - self._sent)
        if self._due:
            self._send(self._due.popleft())

    def connection_lost(self, _: Exception | None) -> None:
        """Count a request in flight as failed."""
        if self._busy:
            self._load.lost()


class Load:
    """All connections and their responses."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        body = options.body.encode()
        key = f"X-Api-Key: {options.key}\r\n" if options.key else ""
        self.request = (
            f"{options.method} {options.path} HTTP/1.1\r\n"
            f"Host: 127.0.0.1:{options.port}\r\n"
            f"{key}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode() + body
        self.latencies: list[float] = []
        self.refused = 0
        self.until = 0.0
        self._in_progress = 0
        self._all_answered = asyncio.Event()

    def asked(self) -> None:
        """Count an expected response."""
        self._in_progress += 1
        self._all_answered.clear()

    def answered(self, connection: Connection, status: bytes, latency: float) -> None:
        """Record a response; without a schedule, send the next request."""
        if status.startswith(b"2"):
            self.latencies.append(latency)
        else:
            self.refused += 1
        if not self.options.rate and time.monotonic() < self.until:
            connection.ask(time.monotonic())
        self._note_answer()

    def lost(self) -> None:
        """Record a broken connection."""
        self.refused += 1
        self._note_answer()

    def _note_answer(self) -> None:
        self._in_progress -= 1
        if not self._in_progress:
            self._all_answered.set()

    async def run(self) -> dict[str, object]:
        """Send requests for the given time; responses in flight at the end still count."""
        loop = asyncio.get_running_loop()
        connections = [
            (await loop.create_connection(lambda: Connection(self), "127.0.0.1", self.options.port))
            for _ in range(self.options.connections)
        ]
        start = time.monotonic()
        self.until = start + self.options.seconds
        if self.options.rate:
            await self._ask_on_timetable(start, [each for _, each in connections])
        else:
            for _, connection in connections:
                connection.ask(time.monotonic())
            await asyncio.sleep(self.options.seconds)
        await self._all_answered.wait()
        seconds = time.monotonic() - start
        for transport, _ in connections:
            transport.abort()
        return {
            "started": start,
            "seconds": seconds,
            "answers": len(self.latencies),
            "refused": self.refused,
            "milliseconds": [1000 * latency for latency in self.latencies],
        }

    async def _ask_on_timetable(self, start: float, connections: list[Connection]) -> None:
        asked = 0
        while (due := start + asked / self.options.rate) < self.until:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            connections[asked % len(connections)].ask(due)
            asked += 1


def main() -> None:
    """Send requests and print the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--method", default="POST")
    parser.add_argument("--path", default="/v1/jobs")
    parser.add_argument("--body", default='{"kind":"job","input":{"n":1}}')
    parser.add_argument("--key", default="")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rate", type=float, default=0.0)
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        print(json.dumps(runner.run(Load(options).run())), flush=True)


if __name__ == "__main__":
    main()
