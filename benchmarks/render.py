"""Diagrams through the surface beside drawing them directly: `python -m benchmarks.render`.

- R21: how long `POST /render?mode=sync` takes beside the engine alone in a warm process. What lies
  between them is a process of its own, and a durable job. It is asked over one connection that is
  kept, by Python's own client, which costs a fraction of a millisecond: it is the surface that is
  measured.
- R20: how long `POST /render` takes to answer.
- R22: how many diagrams a second go through, submitted by 32 clients at once and all drawn.

Each diagram is another one, so that none is answered from the cache. Prints medians and spreads.
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
# The first is what has the process at hand started.
WARM_UP = 10
numbers = itertools.count()


def source(format_: Format) -> str:
    """Write a diagram that nobody has drawn before."""
    return SOURCES[format_].replace("{n}", str(next(numbers)))


def timed(work: Callable[[], object], times: int) -> list[float]:
    """Return how many milliseconds each time took."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append((time.perf_counter() - began) * 1000)
    return taken


def shown(taken: list[float]) -> str:
    """Write the median, and the spread of all but the worst twentieth."""
    ordered = sorted(taken)
    return f"{statistics.median(ordered):7.1f} ms  (p95 {ordered[int(len(ordered) * 0.95)]:.1f})"


def main() -> None:
    """Measure, and print."""
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
            beside(line, format_, options.times)
        created(client, options.times)
        volume(client, options.times * 5)


def beside(line: http.client.HTTPConnection, format_: Format, times: int) -> None:
    """Draw directly and through the surface, in turns."""

    def directly() -> None:
        draw(source(format_), format_, Output.SVG)

    def through() -> None:
        body = json.dumps({"source": source(format_), "format": format_})
        line.request("POST", "/render?mode=sync", body, {"Content-Type": "application/json"})
        answer = line.getresponse()
        said = answer.read()
        assert answer.status == 200, said

    for _ in range(WARM_UP):
        directly()
        through()
    direct, surface = [], []
    for _ in range(times):
        direct += timed(directly, 1)
        surface += timed(through, 1)
    print(f"{format_:8} directly           {shown(direct)}")
    print(f"{format_:8} POST, mode=sync    {shown(surface)}")
    added = statistics.median(surface) - statistics.median(direct)
    least = _fifth(surface) - _fifth(direct)
    print(f"{format_:8} the surface adds   {added:7.1f} ms  ({least:.1f} by the 20th percentiles)")


def _fifth(taken: list[float]) -> float:
    return sorted(taken)[len(taken) // 5]


def created(client: httpx2.Client, times: int) -> None:
    """Hand diagrams in without waiting for them."""

    def create() -> None:
        body = {"source": source(Format.MERMAID), "format": Format.MERMAID}
        assert client.post("/render", json=body).status_code == 202

    print(f"POST, answered within       {shown(timed(create, times))}")


def volume(client: httpx2.Client, count: int) -> None:
    """Hand in many at once, and wait until all are drawn."""

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
    print(f"{count} diagrams by {CLIENTS} clients, all drawn: {count / seconds:.0f} a second")


if __name__ == "__main__":
    main()
