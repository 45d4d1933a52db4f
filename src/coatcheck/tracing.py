"""OpenTelemetry traces, where the extra `otel` is installed and an exporter is configured.

A submit is a span; its id travels with the job as `traceparent`, and each attempt is a span below
it, wherever and whenever it runs. A handler runs inside its attempt's span, so that what it calls
and what it traces itself hang below. Spans carry ids, kinds, attempts and how it ended: never an
input, a result or the words of an error.

Without the extra or without `OTEL_EXPORTER_OTLP_ENDPOINT` (or a tracer provider that the process
has set up itself) all of this costs one comparison.
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

_tracer: Tracer | None = None


def is_on() -> bool:
    """Whether spans are made."""
    return _tracer is not None


def start_tracing(service: str) -> None:
    """Send spans to the endpoint of the environment, if one is named there."""
    if not any(os.environ.get(name) for name in ENDPOINTS):
        return
    if importlib.util.find_spec("opentelemetry.exporter") is None:
        log.warning("an OpenTelemetry endpoint is set, but coatcheck[otel] is not installed")
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - optional
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - optional
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - optional
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - optional

    name = os.environ.get("OTEL_SERVICE_NAME", service)
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    use_provider(provider)


def use_provider(provider: Any) -> None:
    """Make spans with this tracer provider; None makes no more."""
    global _tracer  # noqa: PLW0603 - one for the process, like the provider itself
    _tracer = None if provider is None else provider.get_tracer("coatcheck")


@contextlib.contextmanager
def submitting(kind: str, traceparent: str | None) -> Iterator[str | None]:
    """Make the span of a submit; gives the traceparent that its job carries from then on."""
    if _tracer is None:
        yield traceparent
        return
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 - optional

    with _tracer.start_as_current_span(
        f"submit {kind}",
        _context(traceparent),
        kind=SpanKind.PRODUCER,
        attributes={"coatcheck.kind": kind},
    ):
        yield _current_traceparent() or traceparent


@contextlib.contextmanager
def attempting(
    kind: str, job_id: str, attempt: int, traceparent: str | None
) -> Iterator[AttemptSpan]:
    """Make the span of an attempt, current for as long as the handler runs."""
    if _tracer is None:
        yield AttemptSpan(None)
        return
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 - optional

    with _tracer.start_as_current_span(
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


class AttemptSpan:
    """The span of an attempt that is under way."""

    def __init__(self, span: Any) -> None:
        self._span = span

    def ended(self, outcome: str) -> None:
        """Say how the attempt ended, by the name of its outcome."""
        if self._span is not None:
            from opentelemetry.trace import StatusCode  # noqa: PLC0415 - optional

            self._span.set_attribute("coatcheck.outcome", outcome)
            if outcome in ("Errored", "GaveUp"):
                self._span.set_status(StatusCode.ERROR)


def current_traceparent() -> str | None:
    """Return the span that is current here; None where none is made."""
    return None if _tracer is None else _current_traceparent()


def _context(traceparent: str | None) -> Any:
    from opentelemetry.context import Context  # noqa: PLC0415 - optional
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - optional
        TraceContextTextMapPropagator,
    )

    # Not the context that happens to be current: a worker's loop has nothing to do with its jobs.
    carrier = {} if traceparent is None else {"traceparent": traceparent}
    return TraceContextTextMapPropagator().extract(carrier, context=Context())


def _current_traceparent() -> str | None:
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - optional
        TraceContextTextMapPropagator,
    )

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent")
