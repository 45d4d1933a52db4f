"""Diagrams through the surface, compared with drawing them directly: `python -m benchmarks.render`.

- R21: the latency of `POST /render?mode=sync`, compared with the engine alone in a warm process.
  The difference is a process of its own and a durable job. Requests use one persistent connection
  of Python's own client, which costs a fraction of a millisecond, so the surface is measured.
- R20: the latency of `POST /render`.
- R22: diagrams per second, submitted by 32 concurrent clients and all drawn.

Each diagram is different, so that none comes from the cache. Prints medians and spreads.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import http.client
import itertools
import json
import socket
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx2

from benchmarks.serving import serving
from coatcheck.surfaces.render.drawing import Format, Output, draw

SOURCES = {
    Format.MERMAID: "flowchart LR\n  A{n}[Begin {n}] -->|go| B{n}\n  B{n} --> C{n}[(Store)]\n",
    Format.D2: "a{n} -> b{n}: go\nb{n} -> c{n}\n",
}
CLIENTS = 32
# The first request starts the warm process.
WARM_UP = 10
numbers = itertools.count()


def source(format_: Format) -> str:
    """Return a diagram that was not drawn before."""
    return SOURCES[format_].replace("{n}", str(next(numbers)))


def timed(work: Callable[[], object], times: int) -> list[float]:
    """Return the milliseconds of each call."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append((time.perf_counter() - began) * 1000)
    return taken


def format_times(taken: list[float]) -> str:
    """Format the median and the 95th percentile."""
    ordered = sorted(taken)
    return f"{statistics.median(ordered):7.1f} ms  (p95 {ordered[int(len(ordered) * 0.95)]:.1f})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=60)
    options = parser.parse_args()
    under = Path(".bench")
    under.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=under) as folder,
        serving(Path(folder), app=None) as server,
        contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port)) as line,
        httpx2.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=120) as client,
    ):
        line.connect()
        line.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for format_ in Format:
            compare(line, format_, options.times)
        measure_create(client, options.times)
        measure_volume(client, options.times * 5)


def compare(line: http.client.HTTPConnection, format_: Format, times: int) -> None:
    """Draw directly and through the surface, alternating."""

    def directly() -> None:
        draw(source(format_), format_, Output.SVG)

    def through() -> None:
        body = json.dumps({"source": source(format_), "format": format_})
        line.request("POST", "/render?mode=sync", body, {"Content-Type": "application/json"})
        response = line.getresponse()
        content = response.read()
        assert response.status == 200, content

    for _ in range(WARM_UP):
        directly()
        through()
    direct, surface = [], []
    for _ in range(times):
        direct += timed(directly, 1)
        surface += timed(through, 1)
    print(f"{format_:8} directly           {format_times(direct)}")
    print(f"{format_:8} POST, mode=sync    {format_times(surface)}")
    added = statistics.median(surface) - statistics.median(direct)
    least = _twentieth_percentile(surface) - _twentieth_percentile(direct)
    print(f"{format_:8} surface overhead   {added:7.1f} ms  ({least:.1f} by the 20th percentiles)")


def _twentieth_percentile(taken: list[float]) -> float:
    return sorted(taken)[len(taken) // 5]


def measure_create(client: httpx2.Client, times: int) -> None:
    """Submit diagrams without waiting for them."""

    def create() -> None:
        body = {"source": source(Format.MERMAID), "format": Format.MERMAID}
        assert client.post("/render", json=body).status_code == 202

    print(f"POST, response within       {format_times(timed(create, times))}")


def measure_volume(client: httpx2.Client, count: int) -> None:
    """Submit many at once, and wait until all are drawn."""

    def create(_: int) -> str:
        body = {"source": source(Format.MERMAID), "format": Format.MERMAID}
        return str(client.post("/render", json=body).raise_for_status().json()["jobId"])

    began = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
        ids = list(clients.map(create, range(count)))
    for job_id in ids:
        while (job := client.get(f"/v1/jobs/{job_id}?wait=30").json())["finished_at"] is None:
            continue
        assert job["state"] == "succeeded", job["error"]
    seconds = time.perf_counter() - began
    print(f"{count} diagrams by {CLIENTS} clients, all drawn: {count / seconds:.0f} per second")


if __name__ == "__main__":
    main()
