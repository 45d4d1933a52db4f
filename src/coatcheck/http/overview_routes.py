"""The part of the table of calls that shows the whole."""

from __future__ import annotations

from coatcheck.http import overview
from coatcheck.http.endpoint import Answer, Endpoint, OpensTo, as_json, ref
from coatcheck.model.access import Scope

OVERVIEW: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        "/v1/server",
        overview.get_server,
        "getServer",
        "What this server is, and what your key is good for",
        "operating",
        {200: Answer("The server, and the caller.", as_json(ref("Server")))},
        opens_to=OpensTo.ANY_KEY,
    ),
    Endpoint(
        "GET",
        "/v1/workers",
        overview.list_workers,
        "listWorkers",
        "List the workers and what they run",
        "operating",
        {200: Answer("Every worker that is registered.", as_json(ref("WorkerPage")))},
        needs=Scope.ADMIN,
        opens_to=OpensTo.OPERATOR,
    ),
    Endpoint(
        "GET",
        "/v1/throughput",
        overview.get_throughput,
        "getThroughput",
        "How many jobs ended in each minute of the last hour",
        "operating",
        {200: Answer("The minutes in which any ended.", as_json(ref("Throughput")))},
        needs=Scope.ADMIN,
        opens_to=OpensTo.OPERATOR,
    ),
)
