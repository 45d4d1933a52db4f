"""The handler of the surface: it submits an archive, or answers a poll for its graph.

Both use the same request. A poll repeats the request, with or without its body. The key in the
headers identifies the job, and every request is authorized again.
"""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.engine.engine import Engine
from coatcheck.http.endpoint import Handler
from coatcheck.http.request.idempotency import HEADER, REPLAYED, read_key
from coatcheck.surfaces.graphs.constants import KIND, GraphKind
from coatcheck.surfaces.graphs.empty_body import let_pass
from coatcheck.surfaces.graphs.settings import GraphSettings
from coatcheck.surfaces.graphs.submit import find, id_of, submit
from coatcheck.surfaces.graphs.views import answer_job

NEEDS_KEY = f"{HEADER} is required: the key under which the archive is handed in, and asked about"


def call_for(graph: GraphKind, settings: GraphSettings) -> Handler:
    """Create the handler for one kind of graph."""
    kept_ms = settings.archive_hours * 3_600_000

    async def hand_in_or_poll(request: Request) -> Response:
        """Submit an archive, or answer with the job of this key."""
        key = read_key(request)
        if key is None:
            raise HTTPException(400, NEEDS_KEY)
        engine: Engine = request.app.state.engine
        public_id = id_of(request, key)
        job = await find(request, public_id)
        if job is not None:
            engine.metrics.job_polled(KIND)
            headers = {REPLAYED: "true", **await let_pass(request)}
            return await answer_job(engine, job, headers)
        job, replayed = await submit(request, public_id, graph, kept_ms)
        return await answer_job(engine, job, {REPLAYED: "true"} if replayed else {})

    return hand_in_or_poll
