"""A job's event log: a stream of server-sent events, or pages of JSON.

The stream sends every event after `Last-Event-ID` (or `?after=`), waits for more, and finishes with
`event: end` and the job. A client that was disconnected reconnects with the last number it received
and misses nothing. After the end it gets 204, which stops an EventSource. If the log no longer
reaches back that far, or never reached that number, `event: reset` sends the current job, and the
stream continues from there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from coatcheck.engine.confirmation import ensure_confirmed
from coatcheck.engine.engine import Engine
from coatcheck.errors import NotFound, StoreUnavailable, Unauthorized
from coatcheck.http.auth.readers import named_job
from coatcheck.http.endpoint import JSON, Parameter
from coatcheck.http.jobs.views import event_json, events_json, job_json
from coatcheck.http.request.negotiation import accepted_types
from coatcheck.http.request.query import MAX_EVENT_PAGE, read_number, read_wait
from coatcheck.model.event import JobEvent
from coatcheck.model.job import Job

EVENT_STREAM = "text/event-stream"
HEARTBEAT_S = 15.0
# How long a client waits before it reconnects.
RECONNECT_MS = 1000
PAGE = 200
LAST_EVENT_ID = Parameter(
    "Last-Event-ID",
    "The id of the last event that you received; it overrides `after`.",
    {"type": "string", "pattern": "^[0-9]{1,18}$"},
    location="header",
)
_MAX_SEQ = 2**63 - 1


async def get_events(request: Request) -> Response:
    """Stream a job's event log, or return a page of it to a client that accepts JSON only."""
    engine: Engine = request.app.state.engine
    after = read_last_event_id(request)
    limit = read_number(request.query_params, "limit", PAGE, 1, MAX_EVENT_PAGE)
    wait = read_wait(request.query_params)
    job = await engine.payload_store.with_result(await named_job(request))
    if not _wants_stream(request.headers.get("accept", "*/*")):
        return await _page(engine, job, after or 0, limit, wait)
    if after is not None and job.state.is_terminal and after == job.last_event:
        return Response(status_code=204)
    return event_stream_response(request, _stream(engine, job, after or 0))


def event_stream_response(request: Request, stream: AsyncIterator[str]) -> Response:
    """Return a stream of server-sent events; for HEAD, only its headers."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    if request.method == "HEAD":
        return Response(status_code=200, headers=headers, media_type=EVENT_STREAM)
    return StreamingResponse(stream, 200, headers, EVENT_STREAM)


def _wants_stream(accept: str) -> bool:
    """Return whether to stream: always, unless the client accepts JSON and no stream."""
    accepted = set(accepted_types(accept))
    if EVENT_STREAM in accepted or not accepted:
        return True
    return JSON not in accepted and bool(accepted & {"text/*", "*/*"})


async def _page(engine: Engine, job: Job, after: int, limit: int, wait: float) -> Response:
    if wait and job.last_event <= after and not job.state.is_terminal:
        job = await engine.wait_for_event(job, after, wait) or job
    events = await engine.events(job.id, after, limit, job.tenant)
    return Response(events_json(events, job), media_type=JSON)


async def _stream(engine: Engine, job: Job, after: int) -> AsyncIterator[str]:
    yield _opening(job, after)
    after = min(after, job.last_event)
    found_nothing = False
    while True:
        try:
            events = await engine.events(job.id, after, PAGE, job.tenant)
            # After the read: events written after the key was revoked are not sent.
            await ensure_confirmed(streaming=True)
            if _has_gap(events, after) or (found_nothing and not events):
                job = await engine.get(job.id, job.tenant)
                yield message("reset", job.last_event, job_json(job))
                after = job.last_event
            for event in events:
                if event.seq > after:
                    yield message(event.type, event.seq, event_json(event))
                    after = event.seq
            # Either there is more, or the read started before the event was written: read again.
            found_nothing = not events and job.last_event > after
            if job.last_event > after or len(events) == PAGE:
                continue
            if job.state.is_terminal:
                yield message("end", after, job_json(job))
                return
            moved = await engine.wait_for_event(job, after, HEARTBEAT_S)
        except (NotFound, StoreUnavailable, Unauthorized):
            return  # deleted, store unavailable, key revoked: a reconnect gets the error
        if moved is not None:
            job = moved
        elif engine.stopping:
            return
        else:
            yield ": still here\n\n"


def _opening(job: Job, after: int) -> str:
    """Return the first lines of a stream; reset a client that names an unknown event."""
    reset = message("reset", job.last_event, job_json(job)) if after > job.last_event else ""
    return f"retry: {RECONNECT_MS}\n\n{reset}"


def _has_gap(events: Sequence[JobEvent], after: int) -> bool:
    """Return whether events that follow `after` are gone from the log."""
    return bool(events) and events[0].seq > after + 1


def message(event: str, number: int, data: str) -> str:
    """Serialize one server-sent event."""
    # The JSON has no line breaks: they are escaped in strings.
    return f"id: {number}\nevent: {event}\ndata: {data}\n\n"


def read_last_event_id(request: Request) -> int | None:
    """Read the number of the last event that the client received."""
    query = request.query_params
    after = read_number(query, "after", 0, 0, _MAX_SEQ) if "after" in query else None
    given = request.headers.get("last-event-id")
    if given is None:
        return after
    if not given.isascii() or not given.isdecimal() or len(given) > 18:
        raise HTTPException(400, "Last-Event-ID must be the id of an event of the stream")
    return int(given)
