"""Code graphs over HTTP: the latency of a submit and of a poll (G33).

    python -m benchmarks.graph_api [requests]

A client on one connection submits archives one after the other, some of a few files and some of
1 MB. Then it polls each job twice: once while the job waits and once after it has ended. The first
run has the API alone, as if the worker ran on another machine. The second has a worker on the same
cores that makes graphs all the time.
"""

from __future__ import annotations

import io
import os
import statistics
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import httpx2

from benchmarks.serving import serving

MODULE = "def f{0}(what):\n    return what + {0}\n\n\ndef g{0}():\n    return f{0}({0})\n"


def main() -> None:
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(f"load before: {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        for flags, who in ((("--no-worker",), "the API alone"), ((), "with a worker at work")):
            with serving(Path(folder), *flags, app=None) as server:
                base = f"http://127.0.0.1:{server.port}"
                with httpx2.Client(base_url=base, timeout=60) as http:
                    print(who)
                    _measure(http, requests, ends=not flags)


def _measure(http: httpx2.Client, requests: int, *, ends: bool) -> None:
    small, large = _archive(8), _archive(8, 1_000_000)
    _submit(http, "warm", small)  # warm-up: imports everything
    _print("submit, 8 files", [_timed(_submit, http, f"s{n}", small) for n in range(requests)])
    large_ones = max(10, requests // 10)
    _print("submit, 1 MB", [_timed(_submit, http, f"l{n}", large) for n in range(large_ones)])
    _print("poll", [_timed(_poll, http, f"s{n}") for n in range(requests)])
    if not ends:
        return
    while _poll(http, f"l{large_ones - 1}").status_code != 200:
        time.sleep(0.1)
    _print("poll, completed", [_timed(_poll, http, f"s{n}") for n in range(requests)])


def _submit(http: httpx2.Client, key: str, archive: bytes) -> httpx2.Response:
    answer = http.post(
        "/v1/graphs/call", headers={"Idempotency-Key": key}, files={"file": ("c.zip", archive)}
    )
    assert answer.status_code == 202, answer.text
    return answer


def _poll(http: httpx2.Client, key: str) -> httpx2.Response:
    answer = http.post("/v1/graphs/call", headers={"Idempotency-Key": key})
    assert answer.status_code in (200, 202), answer.text
    return answer


def _archive(files: int, noise: int = 0) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(files):
            archive.writestr(f"code/m{number}.py", MODULE.format(number))
        archive.writestr("code/noise.bin", os.urandom(noise))
    return made.getvalue()


def _timed(call: Callable[..., object], *arguments: object) -> float:
    start = time.perf_counter()
    call(*arguments)
    return (time.perf_counter() - start) * 1000


def _print(what: str, times: list[float]) -> None:
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    print(f"  {what}: p50 {cuts[49]:.1f} ms, p99 {cuts[98]:.1f} ms ({len(times)} requests)")


if __name__ == "__main__":
    main()
