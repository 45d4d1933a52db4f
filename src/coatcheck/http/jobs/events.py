"""A job's log: as server-sent events while it grows, or page by page.

The stream tells every event from the one after `Last-Event-ID` (or `?after=`) on, then waits for
more, and ends with `event: end` and the job itself. Whoever is cut off comes back with the last
number they saw and misses nothing; after the end they are told 204, which stops an EventSource.
Where the log no longer reaches back that far, or never reached that number, `event: reset` brings
the job as it stands, and the stream goes on from there.
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
from coatcheck.http.endpoint import JSON
from coatcheck.http.jobs.views import event_json, events_json, job_json
from coatcheck.http.request.negotiation import accepted_types
from coatcheck.http.request.query import MAX_EVENT_PAGE, read_number, read_wait
from coatcheck.model.event import JobEvent
from coatcheck.model.job import Job

EVENT_STREAM = "text/event-stream"
HEARTBEAT_S = 15.0
# How long a client waits before it comes back.
RECONNECT_MS = 1000
PAGE = 200
_LARGEST = 2**63 - 1


async def get_events(request: Request) -> Response:
    """Stream a job's log, or answer with a page of it to those who take JSON and no stream."""
    engine: Engine = request.app.state.engine
    after = read_last_event_id(request)
    limit = read_number(request.query_params, "limit", PAGE, 1, MAX_EVENT_PAGE)
    wait = read_wait(request.query_params)
    job = await engine.payload_store.with_result(await named_job(request))
    if not _takes_stream(request.headers.get("accept", "*/*")):
        return await _page(engine, job, after or 0, limit, wait)
    if after is not None and job.state.is_terminal and after == job.last_event:
        return Response(status_code=204)
    return event_stream_response(request, _stream(engine, job, after or 0))


def event_stream_response(request: Request, stream: AsyncIterator[str]) -> Response:
    """Answer with a stream; with its head alone where no more is asked for."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    if request.method == "HEAD":
        return Response(status_code=200, headers=headers, media_type=EVENT_STREAM)
    return StreamingResponse(stream, 200, headers, EVENT_STREAM)


def _takes_stream(accept: str) -> bool:
    """Tell whether a caller wants the stream: unless it names JSON and no stream, it does."""
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
    looked_in_vain = False
    while True:
        try:
            events = await engine.events(job.id, after, PAGE, job.tenant)
            # After the read: events that were written since the key was revoked are not told.
            await ensure_confirmed(streaming=True)
            if _is_cut_off(events, after) or (looked_in_vain and not events):
                job = await engine.get(job.id, job.tenant)
                yield message("reset", job.last_event, job_json(job))
                after = job.last_event
            for event in events:
                if event.seq > after:
                    yield message(event.type, event.seq, event_json(event))
                    after = event.seq
            # Either there is more, or the read began before the event was written: look once more.
            looked_in_vain = not events and job.last_event > after
            if job.last_event > after or len(events) == PAGE:
                continue
            if job.state.is_terminal:
                yield message("end", after, job_json(job))
                return
            moved = await engine.wait_for_event(job, after, HEARTBEAT_S)
        except (NotFound, StoreUnavailable, Unauthorized):
            return  # deleted, the store is away, the key revoked: whoever comes back is told which
        if moved is not None:
            job = moved
        elif engine.stopping:
            return
        else:
            yield ": still here\n\n"


def _opening(job: Job, after: int) -> str:
    """Write what a stream begins with; a caller who names an event that never was starts anew."""
    reset = message("reset", job.last_event, job_json(job)) if after > job.last_event else ""
    return f"retry: {RECONNECT_MS}\n\n{reset}"


def _is_cut_off(events: Sequence[JobEvent], after: int) -> bool:
    """Tell whether the log no longer reaches back to what follows an event."""
    return bool(events) and events[0].seq > after + 1


def message(event: str, number: int, data: str) -> str:
    """Write one event of a stream."""
    # Our JSON has no line breaks: they are escaped inside strings.
    return f"id: {number}\nevent: {event}\ndata: {data}\n\n"


def read_last_event_id(request: Request) -> int | None:
    """Read the number of the last event that a caller has seen."""
    query = request.query_params
    after = read_number(query, "after", 0, 0, _LARGEST) if "after" in query else None
    given = request.headers.get("last-event-id")
    if given is None:
        return after
    if not given.isascii() or not given.isdecimal() or len(given) > 18:
        raise HTTPException(400, "Last-Event-ID is the number of an event, as the stream gave it")
    return int(given)
