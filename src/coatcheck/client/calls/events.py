"""Event: one entry of a job's log, and the call that follows the log.

The call emits each event once and in order, even if the stream breaks. Every event has a number.
After a lost connection the client reconnects with the number of the last event it emitted
(`Last-Event-ID`), and the server continues after it. An event that arrived incomplete counts as not
received. A number that was seen before is dropped, so a proxy that repeats data does no harm.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from coatcheck.client.effects import Effects, Emit, Pause, open_stream, read_stream
from coatcheck.client.event_stream import EventStreamParser, ServerSentEvent
from coatcheck.client.responses import error_of
from coatcheck.client.retry import RequestRetryPolicy, is_final, is_permanent
from coatcheck.client.wire import ApiRequest, ConnectionLost
from coatcheck.errors import UnexpectedAnswer

EVENT_STREAM = "text/event-stream"
# The server sends a heartbeat every 15 s.
SILENCE_S = 40.0

OnFinished = Callable[[dict[str, Any]], object]


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a job's log.

    `type` is `state`, `progress`, `log` and so on. A `reset` means that the log no longer reaches
    back to the requested position: its data is the current job, and the log continues from there.
    """

    seq: int
    type: str
    at: datetime
    data: Any  # an object; for an `output` event, the value that the handler emitted


def follow_events(
    policy: RequestRetryPolicy, path: str, after: int | None, on_finished: OnFinished
) -> Effects[None]:
    """Emit every event after this number until the job finishes; then call `on_finished`."""
    log = _Log(after, on_finished)
    attempt = 0
    until = policy.monotonic() + policy.retry_for_s
    while True:
        outcome = yield from open_stream(_request(path, log.last), SILENCE_S)
        if is_final(outcome):
            if outcome.status == 204:
                return
            if outcome.status != 200:
                raise error_of(outcome)
            before = log.last
            yield from _read(log)
            if log.finished:
                return
            attempt = 0 if log.last != before else attempt + 1
            pause = max(log.retry_s, policy.backoff(attempt))
            until = policy.monotonic() + pause + policy.retry_for_s
        else:
            pause = policy.pause_after(outcome, attempt)
            attempt += 1
        if policy.monotonic() + pause > until or is_permanent(outcome):
            raise error_of(policy.last_response(outcome))
        yield Pause(pause)


def _request(path: str, last: int | None) -> ApiRequest:
    # A compressed stream would be buffered on the way.
    headers = {"accept": EVENT_STREAM, "accept-encoding": "identity", "cache-control": "no-store"}
    if last is not None:
        headers["last-event-id"] = str(last)
    return ApiRequest("GET", path, headers=headers)


def _read(log: _Log) -> Effects[None]:
    stream = EventStreamParser()
    while True:
        chunk = yield from read_stream()
        if isinstance(chunk, ConnectionLost) or not chunk:
            return
        for message in stream.feed(chunk):
            event = log.read(message)
            if event is not None:
                yield Emit(event)
            if log.finished:
                return
        if stream.retry_ms is not None:
            log.retry_s = stream.retry_ms / 1000


class _Log:
    """The position in a job's log."""

    def __init__(self, after: int | None, on_finished: OnFinished) -> None:
        self.last = after
        self.finished = False
        self.retry_s = 0.0
        self._on_finished = on_finished

    def read(self, message: ServerSentEvent) -> Event | None:
        """Return the event in a message, or None if it was seen before."""
        try:
            data = json.loads(message.data)
            number = int(message.id or "")
            if message.event == "end":
                self.finished = True
                self._on_finished(data)
                return None
            if message.event == "reset":
                self.last = number
                return Event(number, "reset", datetime.now(UTC), data)
            if self.last is not None and number <= self.last:
                return None
            event = Event(
                data["seq"], data["type"], datetime.fromisoformat(data["at"]), data["data"]
            )
        except (ValueError, TypeError, KeyError) as error:
            raise UnexpectedAnswer(
                f"the stream has a message of type {message.event!r} that is no event"
            ) from error
        self.last = number
        return event
