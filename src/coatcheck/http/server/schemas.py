"""The shapes of what a server tells of itself: kinds, queues, workers, what has ended."""

from __future__ import annotations

from coatcheck.engine.maintenance.throughput import STATES
from coatcheck.http.endpoint import Schema, ref
from coatcheck.http.json_schema import COUNT, KEY_ID, NAME, TEXT, TIME, WHOLE, listed, maybe, whole
from coatcheck.http.server.overview import MOST_NAMED
from coatcheck.http.server.queues import QueueRequest

_PROBLEM: Schema = {
    "type": "object",
    "description": "RFC 9457; `type` is stable, the sentences may change.",
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": TEXT,
        "status": WHOLE,
        "detail": TEXT,
        "errors": listed(whole({"pointer": TEXT, "detail": TEXT})),
        "correlation_id": TEXT,
    },
    "required": ["type", "title", "status", "detail"],
}
_KIND = whole(
    {
        "name": TEXT,
        "queue": TEXT,
        "isolation": TEXT,
        "concurrency": maybe(COUNT),
        "concurrency_by_key": {"type": "boolean"},
        "rate": maybe(TEXT),
        "version": maybe(TEXT),
        "internal": {"type": "boolean"},
        "max_attempts": COUNT,
        "on_lost": TEXT,
        "timeout_s": {"type": "number"},
        "keep_succeeded_s": {"type": "number"},
        "keep_failed_s": {"type": "number"},
        "input_schema": {"type": "object"},
        "result_schema": {"type": "object"},
    }
)
_QUEUE = whole(
    {
        "name": TEXT,
        "paused": {"type": "boolean"},
        "ready": COUNT,
        "delayed": COUNT,
        "running": COUNT,
        "concurrency": maybe(COUNT),
        "oldest_ready_at": maybe(TIME),
    }
)
_SERVER = whole(
    {
        "version": TEXT,
        "now": TIME,
        "needs_key": {"type": "boolean"},
        "surfaces": listed(TEXT),
        "caller": whole(
            {
                "tenant": NAME,
                "key_id": maybe(KEY_ID),
                "operator": {"type": "boolean"},
                "scopes": listed(TEXT),
            }
        ),
    }
)
_WORKER = whole(
    {
        "id": TEXT,
        "host": TEXT,
        "pid": COUNT,
        "kinds": listed(TEXT),
        "slots": COUNT,
        "started_at": TIME,
        "lost": {"type": "boolean"},
        "running": COUNT,
        "jobs": {
            **listed(whole({"id": TEXT, "tenant": NAME, "kind": TEXT, "started_at": maybe(TIME)})),
            "description": f"What it runs, the first {MOST_NAMED}.",
        },
    }
)
_ENDED = whole({"minute": TIME, "queue": TEXT, "kind": TEXT, **dict.fromkeys(STATES, COUNT)})


def operating_components() -> dict[str, Schema]:
    """Return every named shape."""
    return {
        "Kind": _KIND,
        "KindPage": whole({"kinds": listed(ref("Kind"))}),
        "Problem": _PROBLEM,
        "Queue": _QUEUE,
        "QueueRequest": QueueRequest.model_json_schema(),
        "QueuePage": whole({"queues": listed(ref("Queue")), "next_cursor": maybe(TEXT)}),
        # A surface may add whether what it needs is away.
        "Status": whole({"status": TEXT, "degraded": {"type": "boolean"}}, ("degraded",)),
        "Server": _SERVER,
        "WorkerPage": whole({"workers": listed(_WORKER)}),
        "Throughput": whole({"ended": listed(_ENDED)}),
    }
