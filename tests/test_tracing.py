"""Spans from submit to attempt, with the real SDK and its exporter into memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from coatcheck import App, Context, Fail
from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.settings import Settings
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.tracing import ENDPOINTS, NO_TRACING, Tracing, tracing_from_environment
from coatcheck.worker.worker import Worker

pytestmark = pytest.mark.anyio

app = App()
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@app.job
async def greet(_ctx: Context, name: str) -> str:
    with trace.get_tracer("mine").start_as_current_span("inside"):
        return name


@app.job(retries=0)
def refuse(_ctx: Context, _name: str) -> None:
    raise Fail("no", "secret words")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracing(spans: InMemorySpanExporter) -> Tracing:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return Tracing(provider)


@pytest.fixture
async def http(tmp_path: Path, tracing: Tracing) -> AsyncIterator[httpx2.AsyncClient]:
    store = SQLiteStore(tmp_path / "jobs.db")
    await store.open()
    engine = Engine(store, app.kinds, tracing=tracing)
    stop, ready = asyncio.Event(), asyncio.Event()
    working = asyncio.create_task(Worker(engine, Settings(drain_s=0)).run(stop, ready.set))
    await ready.wait()
    transport = httpx2.ASGITransport(app=create_http_app(engine))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
        yield http
    stop.set()
    await working
    await store.close()


async def run(http: httpx2.AsyncClient, kind: str, **headers: str) -> None:
    answer = await http.post(
        "/v1/jobs", json={"kind": kind, "input": "x"}, headers={"Prefer": "wait=60", **headers}
    )
    assert answer.status_code == 200


def by_name(spans: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in spans.get_finished_spans()}


@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "k"}], ids=["plain", "with a key"])
async def test_an_attempt_is_below_its_submit_and_that_below_the_caller(
    http: httpx2.AsyncClient, spans: InMemorySpanExporter, key: dict[str, str]
) -> None:
    await run(http, "greet", traceparent=CALLER, **key)

    found = by_name(spans)
    submit, attempt = found["submit greet"], found["run greet"]
    assert submit.parent is not None
    assert f"{submit.parent.span_id:016x}" == "b7ad6b7169203331"
    assert attempt.parent is not None
    assert attempt.parent.span_id == submit.context.span_id
    assert {f"{span.context.trace_id:032x}" for span in (submit, attempt)} == {CALLER[3:35]}
    assert attempt.attributes is not None
    assert attempt.attributes["coatcheck.outcome"] == "Succeeded"
    assert attempt.attributes["coatcheck.attempt"] == 1


async def test_a_failure_marks_its_span_without_its_message(
    http: httpx2.AsyncClient, spans: InMemorySpanExporter
) -> None:
    await run(http, "refuse")

    span = by_name(spans)["run refuse"]
    assert span.status.status_code is trace.StatusCode.ERROR
    assert "secret" not in span.to_json()


@pytest.mark.parametrize("tracing", [NO_TRACING])
async def test_an_engine_without_tracing_creates_no_spans(
    http: httpx2.AsyncClient, spans: InMemorySpanExporter
) -> None:
    await run(http, "greet", traceparent=CALLER)
    assert spans.get_finished_spans() == ()


def test_tracing_is_off_without_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENDPOINTS:
        monkeypatch.delenv(name, raising=False)
    assert tracing_from_environment("coatcheck") is NO_TRACING
