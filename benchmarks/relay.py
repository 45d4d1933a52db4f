"""Calls through the proxy beside calling the service directly: `python -m benchmarks.relay`.

- How long it takes until the first byte of an answer is there, directly and through a rule: what
  lies between them is a durable job, and a line from the worker to the caller.
- How long each chunk of a stream takes from the service's write to the caller's read.
- 200 streams at once: the same, and what the API and the worker need in memory while they run.

The service is a process of its own and writes into each chunk when it sent it, on the clock that
all processes of a machine share. Directly and through take turns. Takes less than a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

import aiohttp

from benchmarks.serving import Server, serving

STREAMS = 200
CHUNKS = 100
PAUSE_S = 0.08
FILLING = "x" * 1000
SAMPLE_S = 0.25

RULES = """
[[proxy]]
match = "POST /stream/*"
target = "{target}"
wait = "1m"

[[proxy]]
match = "GET /stream/*"
target = "{target}"
wait = "1m"
"""


class Taken(NamedTuple):
    """How many milliseconds the first byte took, and each chunk on its way."""

    first: float
    chunks: list[float]


# --- the service


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            count, pause_ms = (int(part) for part in head.split(" ")[1].split("/")[2:4])
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n"
            )
            for number in range(count):
                if number:
                    await asyncio.sleep(pause_ms / 1000)
                line = json.dumps({"at": time.monotonic_ns(), "said": FILLING}).encode() + b"\n"
                writer.write(b"%x\r\n%s\r\n" % (len(line), line))
            writer.write(b"0\r\n\r\n")
            await writer.drain()


async def serve() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def service() -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.relay", "--service"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


# --- the callers


async def call(http: aiohttp.ClientSession, url: str, method: str = "POST") -> Taken:
    """Read a stream to its end."""
    began = time.monotonic_ns()
    first, chunks = 0, []
    async with http.request(method, url) as response:
        assert response.status == 200, response.status
        async for line in response.content:
            now = time.monotonic_ns()
            first = first or now
            chunks.append((now - json.loads(line)["at"]) / 1e6)
    return Taken((first - began) / 1e6, chunks)


def shown(taken: list[float]) -> str:
    ordered = sorted(taken)
    return f"{statistics.median(ordered):7.2f} ms  (p95 {ordered[int(len(ordered) * 0.95)]:.2f})"


async def one_by_one(http: aiohttp.ClientSession, direct: str, proxy: str, times: int) -> None:
    for method in ("GET", "POST"):
        seen: dict[str, list[float]] = {direct: [], proxy: []}
        for url in (direct, proxy) * 3:
            await call(http, f"{url}/stream/1/0", method)
        for number in range(times):
            for url in (direct, proxy) if number % 2 else (proxy, direct):
                seen[url].append((await call(http, f"{url}/stream/1/0", method)).first)
        report(f"{method}, first byte", seen[direct], seen[proxy])
    chunks: dict[str, list[float]] = {direct: [], proxy: []}
    for url in (direct, proxy) * 4:
        chunks[url] += (await call(http, f"{url}/stream/100/5")).chunks[1:]
    report("each chunk", chunks[direct], chunks[proxy])


def report(what: str, direct: list[float], proxy: list[float]) -> None:
    added = statistics.median(proxy) - statistics.median(direct)
    print(f"{what:18} directly {shown(direct)}   through {shown(proxy)}   added {added:.2f} ms")


async def many(http: aiohttp.ClientSession, direct: str, proxy: str, server: Server) -> None:
    path = f"/stream/{CHUNKS}/{PAUSE_S * 1000:.0f}"
    alone = await asyncio.gather(*(call(http, direct + path) for _ in range(STREAMS)))
    # Once before: what a process needs for so many callers it needs once.
    await asyncio.gather(*(call(http, f"{proxy}/stream/2/50") for _ in range(STREAMS)))
    async with watching(server) as memory:
        through = await asyncio.gather(*(call(http, proxy + path) for _ in range(STREAMS)))
    assert all(len(taken.chunks) == CHUNKS for taken in through), "a chunk is missing"
    print(f"\n{STREAMS} streams of {CHUNKS} chunks of 1 KB at once:")
    for what, pick in (("first byte", _first), ("each chunk", _rest)):
        report(what, *([each for taken in run for each in pick(taken)] for run in (alone, through)))
    for role, samples in memory.items():
        third = max(1, len(samples) // 3)
        early, late = max(samples[:third]), max(samples[-third:])
        print(
            f"{role}: {samples[0] / 1e6:.0f} MB before, at most {max(samples) / 1e6:.0f} MB, "
            f"{(late - early) / 1e6:+.1f} MB from the first third to the last"
        )


def _first(taken: Taken) -> list[float]:
    return [taken.first]


def _rest(taken: Taken) -> list[float]:
    return taken.chunks[1:]


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextlib.asynccontextmanager
async def watching(server: Server) -> AsyncIterator[dict[str, list[int]]]:
    """Look how much memory the processes of a server hold, again and again."""
    roles = {pid: role for pid, role in server.processes().items() if pid != server.pid}
    seen: dict[str, list[int]] = {role: [] for role in roles.values()}

    async def watch() -> None:
        while True:
            for pid, role in roles.items():
                seen[role].append(resident(pid))
            await asyncio.sleep(SAMPLE_S)

    task = asyncio.create_task(watch())
    try:
        yield seen
    finally:
        task.cancel()


async def measure(direct: str, server: Server, times: int) -> None:
    proxy = f"http://127.0.0.1:{server.port}"
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as http:
        await one_by_one(http, direct, proxy, times)
        await many(http, direct, proxy, server)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--service", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.service:
        asyncio.run(serve())
        return
    under = Path(".bench")
    under.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=under) as folder, service() as direct:
        rules = Path(folder) / "proxy.toml"
        rules.write_text(RULES.format(target=direct))
        flags = ("--config", str(rules), "--concurrency", str(STREAMS + 20))
        print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        with serving(Path(folder), *flags, app=None) as server:
            asyncio.run(measure(direct, server, options.times))


if __name__ == "__main__":
    main()
