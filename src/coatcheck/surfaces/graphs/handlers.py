"""What the surface answers: an archive handed in, and whoever comes back for its graph.

There is one call for both. Polling is the same request again, with or without its body: the key in
its headers says which job it is about, and each time it is looked at whether the caller may still
ask (the door does that, with every request).
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
    """Make the call for one kind of graph."""
    kept_ms = settings.archive_hours * 3_600_000

    async def hand_in_or_poll(request: Request) -> Response:
        """Make a graph, or answer with the one that is made under this key."""
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
