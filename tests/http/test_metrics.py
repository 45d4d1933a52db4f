"""`GET /metrics`: what a Prometheus reads."""

from __future__ import annotations

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from coatcheck.engine.engine import Engine
from coatcheck.model.job import Failure
from coatcheck.model.outcome import Errored
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import QueueStatus, Settlement
from tests.http.arrange import NOW, StoppedClock, Submit
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

NAMES = {
    "jobs_submitted": "counter",
    "jobs_started": "counter",
    "jobs_finished": "counter",
    "jobs_retried": "counter",
    "jobs_polled": "counter",
    "worker_polls": "counter",
    "jobs_expired": "counter",
    "stale_writes": "counter",
    "webhook_deliveries": "counter",
    "lapsed_leases": "counter",
    "job_run_seconds": "histogram",
    "job_wait_seconds": "histogram",
    "worker_poll_interval_seconds": "histogram",
    "queue_ready": "gauge",
    "queue_delayed": "gauge",
    "queue_running": "gauge",
    "queue_paused": "gauge",
    "queue_oldest_ready_seconds": "gauge",
    "workers": "gauge",
    "worker_slots": "gauge",
    "store_write_seconds": "summary",
}


async def read(http: httpx2.AsyncClient) -> dict[tuple[str, ...], float]:
    """Return every sample by its name and the values of its labels."""
    answer = await http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {
        (sample.name.removeprefix("coatcheck_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


async def test_every_name_is_there_from_the_start_with_its_type_and_what_it_means(
    http: httpx2.AsyncClient,
) -> None:
    families = list(text_string_to_metric_families((await http.get("/metrics")).text))

    assert {family.name: family.type for family in families} == {
        f"coatcheck_{name}": kind for name, kind in NAMES.items()
    }
    assert all(family.documentation for family in families)


async def test_what_jobs_do_is_counted(
    http: httpx2.AsyncClient, engine: Engine, submit: Submit
) -> None:
    await submit("echo")
    await submit("echo")
    await http.post("/v1/batches", json={"jobs": [{"kind": "nothing"}] * 3})
    engine.metrics.started("echo", 10)
    engine.metrics.finished("echo", "default", "succeeded", 20)
    engine.metrics.finished("echo", "default", "failed", 20)
    await engine.store.workers.register_worker(WorkerInfo("w", "here", 1, ("echo",), 4, NOW))

    found = await read(http)

    assert found["jobs_submitted_total", "echo"] == 2
    assert found["jobs_submitted_total", "nothing"] == 3
    assert found["jobs_started_total", "echo"] == 1
    assert found["jobs_finished_total", "echo", "succeeded"] == 1
    assert found["jobs_finished_total", "echo", "failed"] == 1
    assert found["job_run_seconds_count", "echo"] == 2
    assert found["job_wait_seconds_count", "echo"] == 1
    assert (found["workers",], found["worker_slots",]) == (1, 4)
    assert found["store_write_seconds_count",] == 2


async def test_a_repeated_submit_is_counted_once(http: httpx2.AsyncClient) -> None:
    for _ in range(3):
        headers = {"Idempotency-Key": "a"}
        await http.post("/v1/jobs", json={"kind": "echo"}, headers=headers)

    assert (await read(http))["jobs_submitted_total", "echo"] == 1


async def test_histograms_add_up(
    http: httpx2.AsyncClient, engine: Engine, clock: StoppedClock
) -> None:
    for milliseconds in (0, 5, 6, 400, 8_000_000):
        engine.metrics.finished("echo", "default", "succeeded", milliseconds)

    found = await read(http)

    edges = {name[2]: value for name, value in found.items() if name[0] == "job_run_seconds_bucket"}
    assert (edges["0.005"], edges["0.025"], edges["0.5"], edges["7200"]) == (2, 3, 4, 4)
    assert edges["+Inf"] == found["job_run_seconds_count", "echo"] == 5
    assert list(edges.values()) == sorted(edges.values())
    assert found["job_run_seconds_sum", "echo"] == 8000.411


async def test_the_poll_interval_of_workers_is_shown(  # G35
    http: httpx2.AsyncClient, engine: Engine
) -> None:
    """Also where nothing else was counted: a worker that only fails says so."""
    engine.metrics.worker_polled("nothing", 1.0)
    found = await read(http)
    assert found["worker_poll_interval_seconds_sum", "nothing"] == 1
    assert found["worker_poll_interval_seconds_bucket", "nothing", "1"] == 1
    for interval_s in (2.0, 4.0):
        engine.metrics.worker_polled("failed", interval_s)
    found = await read(http)
    assert found["worker_poll_interval_seconds_count", "failed"] == 2
    assert found["worker_poll_interval_seconds_sum", "failed"] == 6
    assert found["worker_poll_interval_seconds_bucket", "failed", "1"] == 0
    assert found["worker_poll_interval_seconds_bucket", "failed", "5"] == 2


async def test_looks_of_an_idle_worker_are_not_written(
    http: httpx2.AsyncClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[object] = []

    async def count(counts: object) -> None:
        written.append(counts)

    monkeypatch.setattr(engine.store.maintenance, "increment_counters", count)
    for _ in range(5):
        engine.metrics.worker_polled("nothing", 1.0)
        await engine.metrics.flush()
    assert len(written) == 1


async def test_retries_stale_writes_and_lost_workers_are_counted(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, claimer: str
) -> None:
    await submit("echo")
    [claim] = (await engine.claim(claimer, ["echo"], 1)).claims
    failed = Errored(Failure("boom", "once"), retry_after_ms=0)
    stale = claim.lease._replace(fence=99)
    await engine.settle([Settlement(claim.lease, failed), Settlement(stale, failed)])
    engine.metrics.retried("echo")
    await engine.store.maintenance.increment_counters({"lapsed_leases": 2})

    found = await read(http)

    assert found["stale_writes_total",] == 1
    assert found["lapsed_leases_total",] == 2
    assert found["jobs_retried_total", "echo"] == 1


async def test_queues_are_shown_as_they_stand(
    http: httpx2.AsyncClient, submit: Submit, clock: StoppedClock, engine: Engine, claimer: str
) -> None:
    for _ in range(3):
        await submit("echo")
    await submit("echo", run_at="2040-01-01T00:00:00Z")
    await engine.claim(claimer, ["echo"], 1)
    await http.post("/v1/queues/default/pause")
    clock.milliseconds += 90_500

    found = await read(http)

    assert found["queue_ready", "default"] == 2
    assert found["queue_delayed", "default"] == 1
    assert found["queue_running", "default"] == 1
    assert found["queue_paused", "default"] == 1
    assert found["queue_oldest_ready_seconds", "default"] == 90.5
    assert found["queue_ready", "orders"] == found["queue_paused", "orders"] == 0


async def test_large_numbers_keep_their_digits(
    http: httpx2.AsyncClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await engine.store.maintenance.increment_counters(
        {'jobs_submitted{kind="echo"}': 123_456_789_012}
    )
    engine.metrics.store_latency.seconds = 1234567.125

    async def queues() -> list[QueueStatus]:
        return [QueueStatus("default", False, 1_234_567, 0, 0, None)]

    monkeypatch.setattr(engine.store.queues, "list_queues", queues)
    found = await read(http)

    assert found["jobs_submitted_total", "echo"] == 123_456_789_012
    assert found["queue_ready", "default"] == 1_234_567
    assert found["store_write_seconds_sum",] == 1234567.125


async def test_who_takes_no_text_and_who_asks_too_much_are_refused(
    http: httpx2.AsyncClient,
) -> None:
    answer = await http.get("/metrics", headers={"Accept": "application/json"})
    read_problem(answer, 406, "not-acceptable")
    read_problem(await http.get("/metrics?name=x"), 400, "bad-request")
    scraper = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3"
    answer = await http.get("/metrics", headers={"Accept": scraper})
    assert answer.status_code == 200
