"""`GET /metrics`: metrics in the Prometheus text format.

Counters are summed over all processes in the store (engine/maintenance/metrics.py), so scraping one
process is enough. The latency of the store is measured by this process alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from starlette.requests import Request
from starlette.responses import Response

from coatcheck.engine.engine import Engine
from coatcheck.engine.maintenance.metrics import (
    BUCKETS_MS,
    DELIVERIES,
    FINISHED,
    LOOK_INTERVAL,
    LOOKS,
    POLLED,
    RETRIED,
    RUN_TIME,
    STARTED,
    SUBMITTED,
    WAIT_TIME,
)
from coatcheck.store.base import QueueStatus

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NAMED = re.compile(r"(\w+)(?:\{(.*)\})?")

# Name in the store -> metric name, help text.
_COUNTERS = {
    SUBMITTED: ("jobs_submitted_total", "Jobs submitted."),
    STARTED: ("jobs_started_total", "Attempts started."),
    FINISHED: ("jobs_finished_total", "Jobs finished, by state."),
    RETRIED: ("jobs_retried_total", "Attempts that failed and are retried."),
    POLLED: ("jobs_polled_total", "Requests that polled a job by submitting it again."),
    LOOKS: ("worker_polls_total", "Polls of workers for jobs, by outcome."),
    DELIVERIES: ("webhook_deliveries_total", "Webhook requests, by outcome."),
    "jobs_expired": ("jobs_expired_total", "Jobs that did not start before their deadline."),
    "stale_writes": (
        "stale_writes_total",
        "Writes rejected because the worker had lost its lease.",
    ),
    "lapsed_leases": ("lapsed_leases_total", "Workers whose lease expired."),
}
_HISTOGRAMS = {
    RUN_TIME: ("job_run_seconds", "Run time of attempts.", "kind"),
    WAIT_TIME: ("job_wait_seconds", "Time between due and started.", "kind"),
    LOOK_INTERVAL: (
        "worker_poll_interval_seconds",
        "Poll interval of workers; it grows while the store fails.",
        "outcome",
    ),
}
_QUEUE_GAUGES = {
    "queue_ready": "Jobs that are ready to run.",
    "queue_delayed": "Jobs that are scheduled for later.",
    "queue_running": "Jobs that are running.",
    "queue_paused": "Whether the queue is paused.",
    "queue_oldest_ready_seconds": "Age of the oldest job that is ready to run.",
}


async def get_metrics(request: Request) -> Response:
    """Return the metrics of all processes."""
    engine: Engine = request.app.state.engine
    await engine.metrics.flush()
    counters = await engine.store.maintenance.read_counters()
    queues = await engine.queues()
    workers = [
        seen.info for seen in await engine.store.workers.list_workers() if not seen.known_dead
    ]
    lines = [
        *_counter_lines(counters),
        *_histogram_lines(counters),
        *_queue_lines(queues, engine.clock.now()),
        *_gauge("workers", "Registered workers.", len(workers)),
        *_gauge("worker_slots", "Slots of all workers.", sum(one.slots for one in workers)),
        *_store_lines(engine),
    ]
    return Response("\n".join(lines) + "\n", media_type=MEDIA_TYPE)


def _counter_lines(counters: Mapping[str, int]) -> Iterator[str]:
    by_name: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for key, value in sorted(counters.items()):
        if found := _NAMED.fullmatch(key):
            labels = f"{{{found[2]}}}" if found[2] else ""
            by_name[found[1]].append((labels, value))
    for name, (shown, what) in _COUNTERS.items():
        yield from _head(shown, what, "counter")
        for labels, value in by_name.get(name, []):
            yield f"coatcheck_{shown}{labels} {value}"


def _histogram_lines(counters: Mapping[str, int]) -> Iterator[str]:
    for name, (shown, what, label) in _HISTOGRAMS.items():
        yield from _head(shown, what, "histogram")
        known = re.compile(rf'{name}_count\{{({label}="[^"]+")\}}')
        for pair in sorted(found[1] for key in counters if (found := known.fullmatch(key))):
            below = 0
            for bound in (*BUCKETS_MS, "inf"):
                below += counters.get(f'{name}_bucket{{{pair},le="{bound}"}}', 0)
                edge = "+Inf" if bound == "inf" else f"{int(bound) / 1000:g}"
                yield f'coatcheck_{shown}_bucket{{{pair},le="{edge}"}} {below}'
            total = counters.get(f"{name}_ms{{{pair}}}", 0) / 1000
            yield f"coatcheck_{shown}_sum{{{pair}}} {total}"
            yield f"coatcheck_{shown}_count{{{pair}}} {below}"


def _queue_lines(queues: list[QueueStatus], now: int) -> Iterator[str]:
    for name, what in _QUEUE_GAUGES.items():
        yield from _head(name, what, "gauge")
        for queue in queues:
            yield f'coatcheck_{name}{{queue="{queue.name}"}} {_queue_value(name, queue, now)}'


def _queue_value(name: str, queue: QueueStatus, now: int) -> float:
    oldest = queue.oldest_ready
    values = {
        "queue_ready": queue.ready,
        "queue_delayed": queue.delayed,
        "queue_running": queue.running,
        "queue_paused": int(queue.paused),
        "queue_oldest_ready_seconds": 0 if oldest is None else max(0, now - oldest) / 1000,
    }
    return values[name]


def _store_lines(engine: Engine) -> Iterator[str]:
    latency = engine.metrics.store_latency
    yield from _head("store_write_seconds", "Time that this process waited for commits.", "summary")
    yield f"coatcheck_store_write_seconds_sum {latency.seconds}"
    yield f"coatcheck_store_write_seconds_count {latency.count}"


def _gauge(name: str, what: str, value: float) -> Iterator[str]:
    yield from _head(name, what, "gauge")
    yield f"coatcheck_{name} {value}"


def _head(name: str, what: str, kind: str) -> Iterator[str]:
    yield f"# HELP coatcheck_{name} {what}"
    yield f"# TYPE coatcheck_{name} {kind}"
