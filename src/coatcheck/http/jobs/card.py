"""`GET /v1/jobs/{id}/card`: a job as a progress card, once or as a stream.

The stream tells the card whenever it has changed, as `event: card`, and ends with `event: end` and
the last one. Where a job moves faster than the cards can be sent, those in between are left out:
each is the whole truth. The number of an event is that of the job's log, so whoever comes back with
`Last-Event-ID` after the end is told 204, which stops an EventSource.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from coatcheck.engine.bulk import RESUMABLE
from coatcheck.engine.confirmation import ensure_confirmed
from coatcheck.engine.engine import Engine
from coatcheck.errors import NotFound, StoreUnavailable, Unauthorized
from coatcheck.http.auth.caller import caller_of
from coatcheck.http.auth.readers import may_read, named_job
from coatcheck.http.endpoint import JSON
from coatcheck.http.jobs.card_view import PlannedStep, card_view
from coatcheck.http.jobs.events import (
    EVENT_STREAM,
    HEARTBEAT_S,
    RECONNECT_MS,
    event_stream_response,
    message,
    read_last_event_id,
)
from coatcheck.http.jobs.views import dumps
from coatcheck.http.request.negotiation import accepted_types
from coatcheck.model.access import Scope
from coatcheck.model.job import Job

if TYPE_CHECKING:  # a surface is made of calls, and this is one
    from coatcheck.http.surfaces.base import Surface


async def get_card(request: Request) -> Response:
    """Answer with a job's card, or with a stream of them to those who take one."""
    seen = read_last_event_id(request)
    job = await named_job(request)
    if EVENT_STREAM not in accepted_types(request.headers.get("accept", "*/*")):
        card = await _card(request, job)
        return Response(card, headers={"Cache-Control": "private, no-cache"}, media_type=JSON)
    if seen is not None and job.state.is_terminal and seen == job.last_event:
        return Response(status_code=204)
    return event_stream_response(request, _stream(request, job))


async def _stream(request: Request, job: Job) -> AsyncIterator[str]:
    engine: Engine = request.app.state.engine
    yield f"retry: {RECONNECT_MS}\n\n"
    shown = ""
    while True:
        try:
            card = await _card(request, job)
            await ensure_confirmed(streaming=True)  # after the read, as in http/jobs/events.py
            if job.state.is_terminal:
                yield message("end", job.last_event, card)
                return
            if card != shown:
                yield message("card", job.last_event, card)
                shown = card
            moved = await engine.wait_for_event(job, job.last_event, HEARTBEAT_S)
        except (NotFound, StoreUnavailable, Unauthorized):
            return  # whoever comes back is told which
        if moved is not None:
            job = moved
        elif engine.stopping:
            return
        else:
            yield ": still here\n\n"


async def _card(request: Request, job: Job) -> str:
    engine: Engine = request.app.state.engine
    steps = await engine.steps_without_results(job)
    left = engine.seconds_left(job)
    return dumps(card_view(job, steps, _planned(request, job), left, _actions(request, job)))


def _planned(request: Request, job: Job) -> Sequence[PlannedStep]:
    """Return the steps that a job goes through, where a surface knows them, whichever way it came
    in.
    """
    surfaces: Mapping[str, Surface] = request.app.state.surfaces
    return next(filter(None, (each.planned_steps(job) for each in surfaces.values())), ())


def _actions(request: Request, job: Job) -> dict[str, str | None]:
    """Return what can be done with a job as it stands, by whoever asks."""
    writes = _may(request, Scope.WRITE, job) and _has_input(request, job) and may_read(request, job)
    possible = {
        "cancel": not (job.state.is_terminal or job.cancel_requested)
        and _may(request, Scope.CANCEL, job),
        "resume": job.state in RESUMABLE and writes,
        "fork": writes and job.kind in request.app.state.engine.kinds,
    }
    return {
        action: f"/v1/jobs/{job.id}/{action}" if can_be else None
        for action, can_be in possible.items()
    }


def _may(request: Request, scope: Scope, job: Job) -> bool:
    kinds = caller_of(request).kinds_for(scope)
    return kinds is None or job.kind in kinds


def _has_input(request: Request, job: Job) -> bool:
    """Tell whether a job still has what was handed in, as far as its kind tells."""
    engine: Engine = request.app.state.engine
    kind = engine.kinds.get(job.kind)
    if kind is None:
        return True
    if kind.drop_input_on_end and job.state.is_terminal:
        return False
    ttl = kind.payload_ttl_ms
    return ttl is None or engine.clock.now() < job.created_at + ttl
