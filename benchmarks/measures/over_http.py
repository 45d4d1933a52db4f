"""`coatcheck serve` with clients on loopback.

The peers have no HTTP API, so the comparisons are the same server's empty handler (the cost of HTTP
alone), a FastAPI route, and the runs without HTTP.
"""

from __future__ import annotations

import contextlib
import statistics
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks import wrk
from benchmarks.http_load import load
from benchmarks.ours import FINISHED, UNFINISHED
from benchmarks.peers import protocol
from benchmarks.plan import Plan
from benchmarks.results import Bar, Measure, Row
from benchmarks.serving import Server, cpu_seconds, serving, serving_fastapi
from coatcheck.store.sqlite.database.connection import connect

EMPTY = {"method": "GET", "path": "/healthz", "body": ""}
CROWDS = (32, 64, 128, 256)
CONNECTIONS = 64
SHARE = 0.6

Ask = Callable[..., dict[str, Any]]


def measure(plan: Plan) -> list[Measure]:
    """Measure submits without a worker, then jobs end to end."""
    tables = [_submit(plan, "http-submit", "our own load generator", load)]
    if wrk.is_there():
        ask = partial(wrk.load, folder=plan.folder)
        tables.append(_submit(plan, "http-submit-wrk", "wrk", ask))
    return [*tables, _by_hand(plan), _end_to_end(plan)]


def _submit(plan: Plan, name: str, generator: str, ask: Ask) -> Measure:
    pairs = {
        crowd: (
            Row(f"durable submit, `POST /v1/jobs`, {crowd} connections", ours=True),
            Row(f"empty handler, `GET /healthz`, {crowd} connections", ours=True),
        )
        for crowd in CROWDS
    }
    costs: dict[str, list[float]] = defaultdict(list)
    for _ in range(plan.rounds):
        with serving(plan.folder, "--no-worker") as server:
            for crowd, (submit, empty) in pairs.items():
                _take(empty, costs, server, plan, ask, crowd, **EMPTY)
                _take(submit, costs, server, plan, ask, crowd)
    rows = [row for pair in pairs.values() for row in pair]
    _note_costs(rows, costs)
    title = f"Submit over HTTP, `coatcheck serve --no-worker`, asked by {generator}"
    table = Measure(name, title, "requests/s", rows)
    for crowd, (submit, empty) in pairs.items():
        share = _ratio(submit, empty)
        wanted = f"{crowd} connections: at least {SHARE:.0%} of the same server's empty handler"
        table.bars.append(Bar(wanted.replace("%", " %"), f"{100 * share:.0f} %", share >= SHARE))
    table.notes = [
        "The load generator is a second process on the same cores.",
        "The empty handler is reached through the router; a submit has a shortcut past it.",
    ]
    return table


def _by_hand(plan: Plan) -> Measure:
    submit = Row("durable submit, `POST /v1/jobs`", ours=True)
    by_hand = Row("a FastAPI route that inserts a row into SQLite")
    costs: dict[str, list[float]] = defaultdict(list)
    for _ in range(plan.rounds):
        with serving(plan.folder, "--no-worker") as server:
            _take(submit, costs, server, plan, load, CONNECTIONS)
        with serving_fastapi(plan.folder) as server:
            _take(by_hand, costs, server, plan, load, CONNECTIONS)
    _note_costs([submit, by_hand], costs)
    times = _ratio(submit, by_hand)
    title = f"Submit over HTTP beside a route by hand, {CONNECTIONS} connections"
    table = Measure("http-by-hand", title, "requests/s", [submit, by_hand])
    table.bars = [
        Bar("at least 2 × a FastAPI route doing the insert", f"{times:.1f} ×", times >= 2)
    ]
    table.notes = [
        (
            "The FastAPI route (peers/fastapi_app.py) writes one row of one table; Coatcheck "
            "writes the job with its indexes, its input and its first event."
        ),
    ]
    return table


def _take(
    row: Row,
    costs: dict[str, list[float]],
    server: Server,
    plan: Plan,
    ask: Ask,
    crowd: int,
    **request: str,
) -> None:
    before = cpu_seconds(server.pid)
    answer = ask(server.port, connections=crowd, seconds=plan.seconds, **request)
    row.samples.append(answer["answers"] / answer["seconds"])
    costs[row.label].append(1e6 * (cpu_seconds(server.pid) - before) / answer["answers"])


def _note_costs(rows: list[Row], costs: dict[str, list[float]]) -> None:
    for row in rows:
        row.extra["server_cpu_us_per_request"] = statistics.median(costs[row.label])


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


def _until_done(server: Server, count: int) -> float:
    with contextlib.closing(connect(server.database, read_only=True)) as reader:
        return protocol.wait_until_done(
            lambda sql: reader.execute(sql).fetchall(), UNFINISHED, FINISHED, count
        )
