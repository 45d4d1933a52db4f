"""Following a job's log: each event once and in order, through any number of cut streams.

Every event has a number. Whoever is cut off comes back with the last one they have handed on
(`Last-Event-ID`), and is told what comes after it; an event that was cut in the middle counts as
not seen. A number that was seen already is dropped, so a proxy that repeats changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from coatcheck.client.effects import Emit, Pause, Steps, open_stream, read_stream
from coatcheck.client.event import Event
from coatcheck.client.event_stream import EventStreamParser, ServerSentEvent
from coatcheck.client.responses import error_of
from coatcheck.client.retry import RetryPolicy, is_answer
from coatcheck.client.wire import ApiRequest, ConnectionLost
from coatcheck.errors import UnexpectedAnswer

EVENT_STREAM = "text/event-stream"
# The server says that it is still there every 15 s.
SILENCE_S = 40.0

Keep = Callable[[dict[str, Any]], object]


def follow(patience: RetryPolicy, path: str, after: int | None, keep: Keep) -> Steps[None]:
    """Emit every event after this number until the job's end; `keep` gets the job at its end."""
    log = _Log(after, keep)
    attempt = 0
    until = patience.monotonic() + patience.retry_for_s
    while True:
        got = yield from open_stream(_request(path, log.last), SILENCE_S)
        if is_answer(got):
            if got.status == 204:
                return
            if got.status != 200:
                raise error_of(got)
            before = log.last
            yield from _read(log)
            if log.ended:
                return
            attempt = 0 if log.last != before else attempt + 1
            pause = max(log.retry_s, patience.backoff(attempt))
            until = patience.monotonic() + pause + patience.retry_for_s
        else:
            pause = patience.pause_after(got, attempt)
            attempt += 1
        if patience.monotonic() + pause > until or (
            isinstance(got, ConnectionLost) and got.hopeless
        ):
            raise error_of(patience.give_up(got))
        yield Pause(pause)


def _request(path: str, last: int | None) -> ApiRequest:
    # Compressed, a stream would be held back until there is enough of it.
    headers = {"accept": EVENT_STREAM, "accept-encoding": "identity", "cache-control": "no-store"}
    if last is not None:
        headers["last-event-id"] = str(last)
    return ApiRequest("GET", path, headers=headers)


def _read(log: _Log) -> Steps[None]:
    stream = EventStreamParser()
    while True:
        piece = yield from read_stream()
        if isinstance(piece, ConnectionLost) or not piece:
            return
        for message in stream.feed(piece):
            event = log.take(message)
            if event is not None:
                yield Emit(event)
            if log.ended:
                return
        if stream.retry_ms is not None:
            log.retry_s = stream.retry_ms / 1000


class _Log:
    """How far a log has been read."""

    def __init__(self, after: int | None, keep: Keep) -> None:
        self.last = after
        self.ended = False
        self.retry_s = 0.0
        self._keep = keep

    def take(self, message: ServerSentEvent) -> Event | None:
        """Return the event that a message tells, unless it is known already."""
        try:
            data = json.loads(message.data)
            number = int(message.id or "")
            if message.event == "end":
                self.ended = True
                self._keep(data)
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
