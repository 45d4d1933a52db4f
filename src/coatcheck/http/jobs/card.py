"""`GET /v1/jobs/{id}/card`: a job as a progress card, once or as a stream.

The stream sends the card whenever it changed, as `event: card`, and finishes with `event: end` and
the last card. If a job changes faster than cards can be sent, intermediate cards are skipped: each
card is complete. The id of an event is that of the job's event log, so a client that reconnects
with `Last-Event-ID` after the end gets 204, which stops an EventSource.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from coatcheck.documents.jobs import CardActions, StreamedCard
from coatcheck.documents.schema import schema_of
from coatcheck.engine.bulk import RESUMABLE
from coatcheck.engine.confirmation import ensure_confirmed
from coatcheck.engine.engine import Engine
from coatcheck.errors import NotFound, StoreUnavailable, Unauthorized
from coatcheck.http.auth.caller import caller_of
from coatcheck.http.auth.readers import may_read, named_job
from coatcheck.http.endpoint import JSON, Endpoint, EndpointResponse, KindRule, ref
from coatcheck.http.jobs.card_view import PlannedStep, card_view
from coatcheck.http.jobs.events import (
    EVENT_STREAM,
    HEARTBEAT_S,
    LAST_EVENT_ID,
    RECONNECT_MS,
    event_stream_response,
    message,
    read_last_event_id,
)
from coatcheck.http.jobs.views import dumps
from coatcheck.http.request.negotiation import accepted_types
from coatcheck.model.access import Scope
from coatcheck.model.job import Job

if TYPE_CHECKING:  # a surface imports endpoints, and this is one
    from coatcheck.http.surfaces.base import Surface


async def get_card(request: Request) -> Response:
    """Return a job's card, or a stream of cards to a client that accepts server-sent events."""
    last_event = read_last_event_id(request)
    job = await named_job(request)
    if EVENT_STREAM not in accepted_types(request.headers.get("accept", "*/*")):
        card = await _card(request, job)
        return Response(card, headers={"Cache-Control": "private, no-cache"}, media_type=JSON)
    if last_event is not None and job.state.is_terminal and last_event == job.last_event:
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
            return  # a reconnect gets the error
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
    """Return the planned steps of a job, if any surface knows them."""
    surfaces: Mapping[str, Surface] = request.app.state.surfaces
    return next(filter(None, (each.planned_steps(job) for each in surfaces.values())), ())


def _actions(request: Request, job: Job) -> CardActions:
    """Return the actions that the job's state and the caller's key allow."""
    writes = _may(request, Scope.WRITE, job) and _has_input(request, job) and may_read(request, job)
    can_cancel = not (job.state.is_terminal or job.cancel_requested)
    can_cancel = can_cancel and _may(request, Scope.CANCEL, job)
    can_fork = writes and job.kind in request.app.state.engine.kinds
    path = f"/v1/jobs/{job.id}"
    return {
        "cancel": f"{path}/cancel" if can_cancel else None,
        "resume": f"{path}/resume" if job.state in RESUMABLE and writes else None,
        "fork": f"{path}/fork" if can_fork else None,
    }


def _may(request: Request, scope: Scope, job: Job) -> bool:
    kinds = caller_of(request).kinds_for(scope)
    return kinds is None or job.kind in kinds


def _has_input(request: Request, job: Job) -> bool:
    """Return whether a job still has its input, judged by its kind."""
    engine: Engine = request.app.state.engine
    kind = engine.kinds.get(job.kind)
    if kind is None:
        return True
    if kind.drop_input_on_end and job.state.is_terminal:
        return False
    ttl = kind.payload_ttl_ms
    return ttl is None or engine.clock.now() < job.created_at + ttl


CARDS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        "/v1/jobs/{job_id}/card",
        get_card,
        "getCard",
        "Get a job as a progress card",
        "steering",
        {
            200: EndpointResponse(
                "The card. For clients that accept server-sent events, a `card` event for every "
                "change, and an `end` event with the last card.",
                {JSON: ref("Card"), EVENT_STREAM: schema_of(StreamedCard)},
            ),
            204: EndpointResponse("The job is finished, and you have its last card.", {}),
        },
        error_statuses=(404, 410),
        parameters=(LAST_EVENT_ID,),
        for_operators=True,
        kind=KindRule.JOB,
    ),
)
