"""The handlers of kinds."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.documents.server import KindDocument, KindPage
from coatcheck.engine.engine import Engine
from coatcheck.http.endpoint import JSON
from coatcheck.http.jobs.views import dumps
from coatcheck.model.kind import Kind


async def list_kinds(request: Request) -> Response:
    """Return every declared kind."""
    engine: Engine = request.app.state.engine
    page: KindPage = {"kinds": [_view(engine.kinds[name]) for name in sorted(engine.kinds)]}
    return Response(dumps(page), media_type=JSON)


async def get_kind(request: Request) -> Response:
    """Return a kind."""
    engine: Engine = request.app.state.engine
    kind = engine.kinds.get(request.path_params["kind"])
    if kind is None:
        raise HTTPException(404, "there is no such kind")
    return Response(dumps(_view(kind)), media_type=JSON)


def _view(kind: Kind) -> KindDocument:
    terms = kind.terms
    return {
        "name": kind.name,
        "queue": kind.queue,
        "isolation": kind.isolation,
        "concurrency": None if kind.limit is None else kind.limit.concurrency,
        "concurrency_by_key": kind.limit is not None and kind.limit.by_key,
        "rate": None if kind.limit is None or kind.limit.rate is None else kind.limit.rate.text,
        "version": kind.version,
        "internal": kind.internal,
        "max_attempts": terms.max_attempts,
        "on_lost": terms.on_lost,
        "timeout_s": terms.timeout_ms / 1000,
        "keep_succeeded_s": terms.keep_succeeded_ms / 1000,
        "keep_failed_s": terms.keep_failed_ms / 1000,
        "input_schema": kind.input_schema(),
        "result_schema": kind.result_schema(),
    }
