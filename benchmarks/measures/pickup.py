"""Pickup: the time from submit to the start of the handler on an idle system.

The peers on SQLite poll, so theirs depends on the interval: they poll every 10 ms, far below their
defaults; the table on idle CPU shows what that costs.
"""

from __future__ import annotations

import http.client
import json
import time

from benchmarks.contestants import DBOS_DIRECT, EVERYBODY
from benchmarks.measures.comparison import Answer, Turns
from benchmarks.peers import protocol
from benchmarks.plan import Plan
from benchmarks.results import Measure, Row, at_most, percentile
from benchmarks.serving import serving

# The first probes hit cold caches and threads not yet started, in every system.
WARM_UP = 5


def measure(plan: Plan) -> list[Measure]:
    """Return medians and 99th percentiles of each round, then the same over HTTP."""
    everybody = (*EVERYBODY, DBOS_DIRECT)
    turns = Turns(plan, "pickup", everybody, lambda _: {"count": plan.probes + WARM_UP})
    over_http = [_over_http(plan) for _ in range(plan.rounds)]
    tables = []
    for share, name in ((0.5, "p50"), (0.99, "p99")):

        def value(answer: Answer, share: float = share) -> float:
            return percentile(answer["milliseconds"][WARM_UP:], share)

        rows = turns.rows(value, higher_is_better=False)
        ours = next(row for row in rows if row.ours)
        ours.label = "Coatcheck, in one process"
        through_the_door = Row("Coatcheck, `serve`, submitted over HTTP", ours=True)
        through_the_door.samples = [percentile(sample[WARM_UP:], share) for sample in over_http]
        rows.insert(1, through_the_door)
        table = Measure(f"pickup-{name}", f"Pickup on an idle system, {name}", "ms", rows, False)
        if name == "p50":
            table.bars = [at_most(3, "ms", ours.median), at_most(3, "ms", through_the_door.median)]
            table.bars[1].wanted += " over HTTP"
        tables.append(table)
    return tables


def _over_http(plan: Plan) -> list[float]:
    latencies = []
    headers = {"Content-Type": "application/json"}
    with serving(plan.folder) as server:
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        for number in protocol.idle_gaps(plan.probes + WARM_UP):
            body = json.dumps({"kind": "stamp", "input": protocol.payload(number)})
            submitted = time.monotonic()
            client.request("POST", "/v1/jobs", body, headers)
            job = json.loads(client.getresponse().read())
            client.request("GET", f"/v1/jobs/{job['id']}?wait=10")
            ended = json.loads(client.getresponse().read())
            assert ended["state"] == "succeeded", ended
            latencies.append(1000 * (ended["result"] - submitted))
        client.close()
    return latencies
