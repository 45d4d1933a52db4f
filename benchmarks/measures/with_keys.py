"""The cost of a key and quotas for a submit: the same server without and with a key."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

from benchmarks.environments import ROOT
from benchmarks.http_load import load
from benchmarks.plan import Plan
from benchmarks.results import Bar, Measure, Row
from benchmarks.serving import Server, cpu_seconds, serving

CONNECTIONS = 64
MOST = 0.10
WARM_UP_S = 0.5
# Large enough to reject nothing; all quotas but stored bytes are checked.
QUOTAS = ("jobs_waiting", "jobs_running", "submits_per_minute", "payload_bytes")


def measure(plan: Plan) -> list[Measure]:
    """Submit without a key, then with a key of a tenant with quotas."""
    without = Row("submit to a server that has no keys", ours=True)
    with_key = Row("submit with a key of a tenant with four quotas", ours=True)
    costs: dict[str, list[float]] = {without.label: [], with_key.label: []}
    for number in range(plan.rounds):
        # Every other round in the opposite order, so that a changing disk favors neither.
        for row in (without, with_key) if number % 2 else (with_key, without):
            with serving(plan.folder, "--no-worker") as server:
                key = _key(server) if row is with_key else ""
                load(server.port, connections=CONNECTIONS, seconds=WARM_UP_S, key=key)
                _take(row, costs, server, plan.seconds, key)
    for row in (without, with_key):
        row.extra["server_cpu_us_per_request"] = statistics.median(costs[row.label])
    pairs = zip(with_key.samples, without.samples, strict=True)
    slower = 1 - statistics.median(mine / other for mine, other in pairs)
    cpu = statistics.median(
        mine / other
        for mine, other in zip(costs[with_key.label], costs[without.label], strict=True)
    )
    title = f"Submit over HTTP with a key and quotas, {CONNECTIONS} connections"
    table = Measure("http-with-keys", title, "requests/s", [without, with_key])
    table.bars = [
        Bar("less than 10 % fewer submits a second", f"{100 * slower:.1f} %", slower < MOST),
        Bar("less than 10 % more server CPU a submit", f"{100 * (cpu - 1):.1f} %", cpu - 1 < MOST),
    ]
    return [table]


def _key(server: Server) -> str:
    limits = [f"--quota={name}={10**12}" for name in QUOTAS]
    _coatcheck(server, "tenants", "set", "bench", *limits)
    made = _coatcheck(server, "keys", "create", "--tenant", "bench")
    return str(made["key"])


def _coatcheck(server: Server, *arguments: str) -> dict[str, object]:
    command = [sys.executable, "-m", "coatcheck", *arguments, "--json"]
    done = subprocess.run(
        [*command, "--database", f"sqlite:///{server.database}"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    said: dict[str, object] = json.loads(done.stdout)
    return said


def _take(
    row: Row, costs: dict[str, list[float]], server: Server, seconds: float, key: str = ""
) -> None:
    before = cpu_seconds(server.pid)
    answer = load(server.port, connections=CONNECTIONS, seconds=seconds, key=key)
    row.samples.append(answer["answers"] / answer["seconds"])
    costs[row.label].append(1e6 * (cpu_seconds(server.pid) - before) / answer["answers"])
