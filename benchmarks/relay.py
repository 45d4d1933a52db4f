"""Latency of calls through the proxy and through the Ollama queue, beside direct calls:
`python -m benchmarks.relay`.

- Time to the first byte of a response, directly and through a rule or the queue. The difference is
  a durable job, and a socket from the worker to the caller.
- Time of each chunk of a stream from the service's write to the caller's read.
- The same for 200 concurrent streams, with the memory of the API and the worker.

The service is a separate process and writes its send time into each chunk, on the machine's
monotonic clock. It also answers in Ollama's format. Direct and relayed calls alternate. Takes about
a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
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
FILLER = "x" * 1000
SAMPLE_S = 0.25

MODEL = "bench:latest"
CHAT = "/api/chat"
LISTS = {
    "/api/ps": {"models": [{"name": MODEL, "model": MODEL}]},
    "/api/tags": {"models": [{"name": MODEL, "model": MODEL}]},
    "/api/version": {"version": "0.0.0"},
}

RULES = """
[[proxy]]
match = "POST /stream/*"
target = "{target}"
wait = "1m"

[[proxy]]
match = "GET /stream/*"
target = "{target}"
wait = "1m"

[foreman]
ollama_url = "{target}"
per_target = {streams}
"""


class Latency(NamedTuple):
    """Milliseconds until the first byte, and of each chunk in transit."""

    first: float
    chunks: list[float]


# --- the service


def chunk(path: str, *, is_last: bool) -> bytes:
    said: dict[str, object] = {"at": time.monotonic_ns(), "said": FILLER}
    if path == CHAT:
        message = {"role": "assistant", "content": FILLER}
        said = {"model": MODEL, "message": message, "done": is_last, "at": time.monotonic_ns()}
    return json.dumps(said).encode() + b"\n"


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = re.search(r"content-length: *(\d+)", head, re.IGNORECASE)
            body = await reader.readexactly(int(length[1]) if length else 0)
            path = head.split(" ")[1]
            if path in LISTS:
                said = json.dumps(LISTS[path]).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(said) + said)
                continue
            wanted = json.loads(body)["messages"][0]["content"] if path == CHAT else path[8:]
            count, pause_ms = map(int, wanted.split("/"))
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n"
            )
            for number in range(count):
                if number:
                    await asyncio.sleep(pause_ms / 1000)
                line = chunk(path, is_last=number == count - 1)
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


class CallForm(NamedTuple):
    """A form of request for a number of chunks, with a pause between them."""

    name: str
    method: str
    is_chat: bool = False

    def at(self, url: str, count: int, pause_ms: float) -> tuple[str, dict[str, object] | None]:
        asked = f"{count}/{pause_ms:.0f}"
        if not self.is_chat:
            return f"{url}/stream/{asked}", None
        return url + CHAT, {"model": MODEL, "messages": [{"role": "user", "content": asked}]}


GET, POST = CallForm("GET", "GET"), CallForm("POST", "POST")
OLLAMA = CallForm("Ollama's chat", "POST", is_chat=True)


async def call(
    http: aiohttp.ClientSession, form: CallForm, url: str, count: int, pause_ms: float = 0
) -> Latency:
    """Read a stream to its end."""
    address, body = form.at(url, count, pause_ms)
    began = time.monotonic_ns()
    first, chunks = 0, []
    async with http.request(form.method, address, json=body) as response:
        assert response.status == 200, response.status
        async for line in response.content:
            now = time.monotonic_ns()
            first = first or now
            chunks.append((now - json.loads(line)["at"]) / 1e6)
    return Latency((first - began) / 1e6, chunks)


def format_times(taken: list[float]) -> str:
    ordered = sorted(taken)
    return f"{statistics.median(ordered):7.2f} ms  (p95 {ordered[int(len(ordered) * 0.95)]:.2f})"


async def measure_sequential(
    http: aiohttp.ClientSession, direct: str, ours: str, times: int
) -> None:
    for form in (GET, POST, OLLAMA):
        seen: dict[str, list[float]] = {direct: [], ours: []}
        for url in (direct, ours) * 3:
            await call(http, form, url, 1)
        for number in range(times):
            for url in (direct, ours) if number % 2 else (ours, direct):
                seen[url].append((await call(http, form, url, 1)).first)
        report(f"{form.name}, first byte", seen[direct], seen[ours])
    for form in (POST, OLLAMA):
        chunks: dict[str, list[float]] = {direct: [], ours: []}
        for url in (direct, ours) * 4:
            chunks[url] += (await call(http, form, url, 100, 5)).chunks[1:]
        report(f"{form.name}, each chunk", chunks[direct], chunks[ours])


def report(what: str, direct: list[float], ours: list[float]) -> None:
    added = statistics.median(ours) - statistics.median(direct)
    print(
        f"{what:26} directly {format_times(direct)}   through {format_times(ours)}   "
        f"added {added:.2f} ms"
    )


async def measure_concurrent(
    http: aiohttp.ClientSession, form: CallForm, direct: str, ours: str, server: Server
) -> None:
    async def at_once(url: str, chunks: int, pause_ms: float) -> list[Latency]:
        calls = (call(http, form, url, chunks, pause_ms) for _ in range(STREAMS))
        return await asyncio.gather(*calls)

    alone = await at_once(direct, CHUNKS, PAUSE_S * 1000)
    await at_once(ours, 2, 50)  # warm-up: memory for this many callers is allocated once
    async with sample_memory(server) as memory:
        through = await at_once(ours, CHUNKS, PAUSE_S * 1000)
    assert all(len(taken.chunks) == CHUNKS for taken in through), "a chunk is missing"
    print(f"\n{form.name}: {STREAMS} streams of {CHUNKS} chunks of 1 KB at once:")
    for what, pick in (("first byte", _first), ("each chunk", _rest)):
        report(what, *([each for taken in run for each in pick(taken)] for run in (alone, through)))
    for role, samples in memory.items():
        third = max(1, len(samples) // 3)
        early, late = max(samples[:third]), max(samples[-third:])
        print(
            f"{role}: {samples[0] / 1e6:.0f} MB before, at most {max(samples) / 1e6:.0f} MB, "
            f"{(late - early) / 1e6:+.1f} MB from the first third to the last"
        )


def _first(taken: Latency) -> list[float]:
    return [taken.first]


def _rest(taken: Latency) -> list[float]:
    return taken.chunks[1:]


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextlib.asynccontextmanager
async def sample_memory(server: Server) -> AsyncIterator[dict[str, list[int]]]:
    """Sample the resident memory of a server's processes."""
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
    ours = f"http://127.0.0.1:{server.port}"
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as http:
        await measure_sequential(http, direct, ours, times)
        for form in (POST, OLLAMA):
            await measure_concurrent(http, form, direct, ours, server)


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
        rules.write_text(RULES.format(target=direct, streams=STREAMS + 10))
        flags = ("--config", str(rules), "--concurrency", str(STREAMS + 20))
        print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        with serving(Path(folder), *flags, app=None) as server:
            asyncio.run(measure(direct, server, options.times))


if __name__ == "__main__":
    main()
