"""Submit latency while four `def` handlers compute in pure Python.

They keep the worker's interpreter busy, and with it the thread that holds the file's lock while it
commits: the effect on the API process is the price of sharing one database file. Requests follow a
fixed schedule, so a stall shows in every request that was due.
"""

from __future__ import annotations

import http.client
import json
import time

from benchmarks.http_load import load
from benchmarks.plan import Plan
from benchmarks.results import Measure, Row, percentile
from benchmarks.serving import serving

HANDLERS = 4
RATE = 100
CONNECTIONS = 8


def measure(plan: Plan) -> list[Measure]:
    """Run the schedule with an idle and with a computing worker, on one server per round."""
    seconds = max(3.0, plan.seconds * 2)
    samples: dict[str, list[list[float]]] = {"idle": [], "computing": []}
    for _ in range(plan.rounds):
        with serving(plan.folder) as server:
            load(server.port, rate=RATE, connections=CONNECTIONS, seconds=1)
            for state, rounds in samples.items():
                if state == "computing":
                    _keep_busy(server.port, seconds + 2)
                answer = load(server.port, rate=RATE, connections=CONNECTIONS, seconds=seconds)
                rounds.append(answer["milliseconds"])
    tables = []
    for share, name in ((0.5, "p50"), (0.99, "p99")):
        rows = [
            Row(
                f"worker {state}" + (f", {HANDLERS} handlers" if state == "computing" else ""),
                samples=[percentile(sample, share) for sample in rounds],
                ours=True,
            )
            for state, rounds in samples.items()
        ]
        title = f"Submit over HTTP, {RATE} requests/s, {name}"
        tables.append(Measure(f"busy-worker-{name}", title, "ms", rows, False))
    return tables


def _keep_busy(port: int, seconds: float) -> None:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Content-Type": "application/json"}
    body = json.dumps({"kind": "compute", "input": seconds})
    waiting = []
    for _ in range(HANDLERS):
        client.request("POST", "/v1/jobs", body, headers)
        waiting.append(json.loads(client.getresponse().read())["id"])
    until = time.monotonic() + 10
    while waiting and time.monotonic() < until:
        client.request("GET", f"/v1/jobs/{waiting[-1]}")
        if json.loads(client.getresponse().read())["state"] == "running":
            waiting.pop()
        time.sleep(0.02)
    client.close()
    assert not waiting, "the computing handlers did not start"
