"""Submit latency at 200 requests per second, alone and during batches of 10,000 jobs.

A batch is written in slices so that other submits do not wait for it; this measures how far that
holds. There is no worker, so only the API is measured. Requests follow a fixed schedule. For
comparison, raw commits of one row on the same schedule.
"""

from __future__ import annotations

import http.client
import json
import threading

from benchmarks.calibration import commit_milliseconds
from benchmarks.http_load import load
from benchmarks.plan import Plan
from benchmarks.results import Bar, Measure, Row, percentile
from benchmarks.serving import serving

RATE = 200
CONNECTIONS = 16
BATCH = 10_000
BOUND_MS = 50


def measure(plan: Plan) -> list[Measure]:
    """Run the schedule on the bare disk, then twice on one server, per round."""
    seconds = max(3.0, plan.seconds * 2)
    disk = Row("no server: a raw SQLite commit of one row")
    alone = Row("alone", ours=True)
    beside = Row(f"while batches of {BATCH:,} come in", ours=True)
    batches = []
    for _ in range(plan.rounds):
        disk.samples.append(percentile(commit_milliseconds(plan.folder, RATE, seconds), 0.99))
        with serving(plan.folder, "--no-worker") as server:
            load(server.port, rate=RATE, connections=CONNECTIONS, seconds=1)
            for row in (alone, beside):
                stop = threading.Event()
                submitting = threading.Thread(
                    target=_submit_batches, args=(server.port, stop, batches)
                )
                if row is beside:
                    submitting.start()
                answer = load(server.port, rate=RATE, connections=CONNECTIONS, seconds=seconds)
                stop.set()
                if row is beside:
                    submitting.join()
                row.samples.append(percentile(answer["milliseconds"], 0.99))
    title = f"Submit over HTTP, {RATE} requests/s, p99"
    table = Measure("beside-batch", title, "ms", [disk, alone, beside], False)
    for row in (alone, beside):
        middle = sorted(row.samples)[len(row.samples) // 2]
        wanted = f"{row.label}: within {BOUND_MS} ms at p99"
        table.bars.append(Bar(wanted, f"{middle:.1f} ms", middle <= BOUND_MS))
    table.notes = [f"{len(batches)} batches were submitted, one after the other."]
    return [table]


def _submit_batches(port: int, stop: threading.Event, batches: list[int]) -> None:
    body = json.dumps({"jobs": [{"kind": "job", "input": {"n": n}} for n in range(BATCH)]})
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while not stop.is_set():
        client.request("POST", "/v1/batches", body, {"Content-Type": "application/json"})
        answer = client.getresponse()
        answer.read()
        batches.append(answer.status)
    client.close()
    if set(batches) - {202}:
        raise RuntimeError("a batch was refused")
