"""OpenTelemetry traces, if the extra `otel` is installed and an exporter is configured.

A submit is a span. Its id travels with the job as `traceparent`, and each attempt is a span below
it, wherever and whenever it runs. A handler runs inside its attempt's span, so that its own spans
and outgoing calls are below that. Spans carry ids, kinds, attempts and outcomes: never an input, a
result or the message of an error.

A `Tracing` is a value: the engine has one, and passes it to its worker's attempts. Without the
extra or without `OTEL_EXPORTER_OTLP_ENDPOINT` it is `NO_TRACING`, which costs one comparison.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

log = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class Tracing:
    """Creates spans with a tracer provider; without one, it creates none."""

    def __init__(self, provider: Any = None) -> None:
        self._tracer: Tracer | None = None if provider is None else provider.get_tracer("coatcheck")
        self.is_on = self._tracer is not None

    @contextlib.contextmanager
    def submit_span(self, kind: str, traceparent: str | None) -> Iterator[str | None]:
        """Create the span of a submit; yield the traceparent that its job carries."""
        if self._tracer is None:
            yield traceparent
            return
        from opentelemetry.trace import SpanKind  # noqa: PLC0415 - optional

        with self._tracer.start_as_current_span(
            f"submit {kind}",
            _context(traceparent),
            kind=SpanKind.PRODUCER,
            attributes={"coatcheck.kind": kind},
        ):
            yield _current_traceparent() or traceparent

    @contextlib.contextmanager
    def attempt_span(
        self, kind: str, job_id: str, attempt: int, traceparent: str | None
    ) -> Iterator[AttemptSpan]:
        """Create the span of an attempt, which is current while the handler runs."""
        if self._tracer is None:
            yield AttemptSpan(None)
            return
        from opentelemetry.trace import SpanKind  # noqa: PLC0415 - optional

        with self._tracer.start_as_current_span(
            f"run {kind}",
            _context(traceparent),
            kind=SpanKind.CONSUMER,
            attributes={
                "coatcheck.kind": kind,
                "coatcheck.job_id": job_id,
                "coatcheck.attempt": attempt,
            },
        ) as span:
            yield AttemptSpan(span)

    def current_traceparent(self) -> str | None:
        """Return the traceparent of the current span; None if there is none."""
        return None if self._tracer is None else _current_traceparent()


NO_TRACING = Tracing()


class AttemptSpan:
    """The span of an attempt in progress."""

    def __init__(self, span: Any) -> None:
        self._span = span

    def set_outcome(self, outcome: str) -> None:
        """Record the name of the attempt's outcome."""
        if self._span is not None:
            from opentelemetry.trace import StatusCode  # noqa: PLC0415 - optional

            self._span.set_attribute("coatcheck.outcome", outcome)
            if outcome in ("Errored", "GaveUp"):
                self._span.set_status(StatusCode.ERROR)


def tracing_from_environment(service: str) -> Tracing:
    """Return tracing that exports spans to the endpoint in the environment, if there is one."""
    if not any(os.environ.get(name) for name in ENDPOINTS):
        return NO_TRACING
    if importlib.util.find_spec("opentelemetry.exporter") is None:
        log.warning("tracing disabled: an endpoint is set, but coatcheck[otel] is not installed")
        return NO_TRACING
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - optional
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - optional
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - optional
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - optional

    name = os.environ.get("OTEL_SERVICE_NAME", service)
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider)


def _context(traceparent: str | None) -> Any:
    from opentelemetry.context import Context  # noqa: PLC0415 - optional
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - optional
        TraceContextTextMapPropagator,
    )

    # Not the current context: the context of a worker's loop is unrelated to its jobs.
    carrier = {} if traceparent is None else {"traceparent": traceparent}
    return TraceContextTextMapPropagator().extract(carrier, context=Context())


def _current_traceparent() -> str | None:
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - optional
        TraceContextTextMapPropagator,
    )

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent")
