"""Through the front door: `coatcheck serve` and clients on loopback.

The peers have no such door, so there is nobody to compare with: the yardsticks are the same
server's empty handler (what HTTP alone costs) and the runs without HTTP.
"""

from __future__ import annotations

import contextlib
import statistics
from typing import Any

from benchmarks.http_load import load
from benchmarks.ours import FINISHED, UNFINISHED
from benchmarks.peers import protocol
from benchmarks.plan import Plan
from benchmarks.results import Bar, Measure, Row
from benchmarks.serving import Server, cpu_seconds, serving, serving_fastapi
from coatcheck.store.sqlite.connection import connect

CONNECTIONS = 64


def measure(plan: Plan) -> list[Measure]:
    """Submits to an API without a worker, then jobs end to end through API and worker."""
    return [_submit(plan), _end_to_end(plan)]


def _submit(plan: Plan) -> Measure:
    submit = Row("durable submit, `POST /v1/jobs`", ours=True)
    empty = Row("empty handler, `GET /healthz`", ours=True)
    by_hand = Row("a FastAPI route that inserts a row into SQLite")
    costs: dict[str, list[float]] = {row.label: [] for row in (submit, empty, by_hand)}

    def take(row: Row, server: Server, **request: str) -> None:
        answer, cost = _with_cost(server, plan, **request)
        row.samples.append(answer["answers"] / answer["seconds"])
        costs[row.label].append(cost)

    for _ in range(plan.rounds):
        with serving(plan.folder, "--no-worker") as server:
            take(empty, server, method="GET", path="/healthz", body="")
            take(submit, server)
        with serving_fastapi(plan.folder) as server:
            take(by_hand, server)
    for row in (submit, empty, by_hand):
        row.extra["server_cpu_us_per_request"] = statistics.median(costs[row.label])
    share, times = _ratio(submit, empty), _ratio(submit, by_hand)
    title = f"Submit over HTTP, {CONNECTIONS} connections, `coatcheck serve --no-worker`"
    table = Measure("http-submit", title, "requests/s", [submit, empty, by_hand])
    table.bars = [
        Bar(
            "at least 60 % of the same server's empty handler",
            f"{100 * share:.0f} %",
            share >= 0.6,
        ),
        Bar("at least 2 × a FastAPI route doing the insert", f"{times:.1f} ×", times >= 2),
    ]
    table.notes = [
        "The load generator is a second process on the same cores.",
        (
            "The FastAPI route (peers/fastapi_app.py) writes one row of one table; Coatcheck "
            "writes the job with its indexes, its input and its first event."
        ),
    ]
    return table


def _ratio(mine: Row, other: Row) -> float:
    return statistics.median(a / b for a, b in zip(mine.samples, other.samples, strict=True))


def _end_to_end(plan: Plan) -> Measure:
    row = Row("submitted over HTTP, run by the worker process", ours=True)
    for _ in range(plan.rounds):
        with serving(plan.folder) as server:
            answer = load(server.port, connections=CONNECTIONS, seconds=plan.seconds)
            end = _until_done(server, answer["answers"])
            row.samples.append(answer["answers"] / (end - answer["started"]))
    title = f"End to end over HTTP, {CONNECTIONS} connections, `coatcheck serve`"
    table = Measure("end-to-end-http", title, "jobs/s", [row])
    table.notes = ["Load generator, API and worker are three processes that share the cores."]
    return table


def _with_cost(server: Server, plan: Plan, **request: str) -> tuple[dict[str, Any], float]:
    before = cpu_seconds(server.pid)
    answer = load(server.port, connections=CONNECTIONS, seconds=plan.seconds, **request)
    return answer, 1e6 * (cpu_seconds(server.pid) - before) / answer["answers"]


def _until_done(server: Server, count: int) -> float:
    with contextlib.closing(connect(server.database, read_only=True)) as reader:
        return protocol.wait_until_done(
            lambda sql: reader.execute(sql).fetchall(), UNFINISHED, FINISHED, count
        )
