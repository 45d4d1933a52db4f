"""How a worker and a process that runs handlers for it speak.

Each process has one stream socket, which it shares with its worker and with nobody else. The worker
alone reads and writes the store; a process knows nothing of it. A message is a frame: two lengths
(four bytes each, big-endian), a header of that many bytes of JSON with a `type`, and a body of that
many bytes, which is the input or the result, as it is. Either side may send at any time.

From the worker:

- `hello` first: where to import from, how to log, which kinds there are, and for a process of
  confined kinds what it locks itself down to (confined.py).
- `job`: run this attempt. It has a number, and everything that follows about it names that number,
  so that what crosses on the way is never taken for the next job's. The body is the input.
- `interrupt`: the attempt should stop, and why.
- `stop`: end, as soon as no attempt runs.

From the process:

- `ready` when it has imported every handler, or `broken` and why it could not.
- `begun` just before the handler is called. A process that dies without having said so has not
  touched the job, which is then given to another.
- `report`: what the handler said of its job since the last one. A process sends one at once, and
  then at most one every `REPORT_EVERY_S`, however often `ctx` is called.
- `piece`: so many bytes of a file that the handler leaves behind, for the `ask` of the same id that
  follows. The worker gathers them, on its disk where they are many.
- `limit`: a step of the handler began that may take so many seconds, or the one of the same id has
  ended. The worker kills a process whose step is over its limit.
- `done`: how the attempt ended, with all that was said and not reported yet, and the files that go
  with its end. The body is the result. `fit` is false where the process should not be used again.

A handler's questions to its worker (worker/processes/codec.py) are `ask` from the process, with an
id of its own, and `answer` with the same id. Each side reads all the time, whatever its handler
does.

Nobody waits for the other to read: the worker's side is never blocked by a write, and the process
has a thread that does nothing but read. So frames larger than what the kernel buffers can pass in
both directions at once.

What can fail: the process ends in the middle of a frame, which is then dropped; the worker ends,
and the process reads the end of the stream and kills its own process group (see orphans.py); a
handler scribbles over the socket, and the worker ends the process.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import Any, NamedTuple

from coatcheck.model.artifact import (
    IN_ROW_BYTES,
    SmallFile,
    check_content_type,
    check_name,
    small_file,
)
from coatcheck.model.event import EventType, NewJobEvent
from coatcheck.model.handler import reference_of
from coatcheck.model.job import Claim, Failure, Lease, Progress, Terms
from coatcheck.model.kind import Kind
from coatcheck.model.outcome import Errored, GaveUp, Outcome, Released, Succeeded, Waiting
from coatcheck.model.state import Reason
from coatcheck.model.step import Step
from coatcheck.settings import Settings
from coatcheck.store.base import Report
from coatcheck.store.shared.rows import read_step, step_row

REPORT_EVERY_S = 0.05
# How much to read at a time.
CHUNK = 1 << 18

_LENGTHS = struct.Struct("!II")


class WireMessage(NamedTuple):
    """One message: a header, whose `type` says what it is, and a body."""

    header: dict[str, Any]
    body: bytes = b""

    @property
    def type(self) -> str:
        """What kind of message it is."""
        return str(self.header["type"])


def frame(header: dict[str, Any], body: bytes = b"") -> bytes:
    """Return a message as it is sent."""
    text = json.dumps(header).encode()
    return _LENGTHS.pack(len(text), len(body)) + text + body


class Splitter:
    """Turns what arrives, in pieces of any size, into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[WireMessage]:
        """Take what has arrived and yield the messages that are complete. ValueError where it is
        not what the other side sends: what came before that has been yielded, and counts.
        """
        self._buffer += data
        while len(self._buffer) >= _LENGTHS.size:
            header, body = _LENGTHS.unpack_from(self._buffer)
            start = _LENGTHS.size + header
            if len(self._buffer) < start + body:
                break
            fields = json.loads(self._buffer[_LENGTHS.size : start])
            if not isinstance(fields, dict) or "type" not in fields:
                raise ValueError("a message without a type")
            message = WireMessage(fields, bytes(self._buffer[start : start + body]))
            del self._buffer[: start + body]
            yield message


# --- what is in the messages


def hello_fields(
    kinds: Sequence[Kind], settings: Settings, confinement: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return what a process is told first."""
    described = []
    for kind in kinds:
        module, handler = reference_of(kind)
        described.append(
            {
                "name": kind.name,
                "module": module,
                "handler": handler,
                "memory": kind.memory,
                "backoff": astuple(kind.backoff),
            }
        )
    logging_settings = {"log_format": settings.log_format, "log_level": settings.log_level}
    return {
        "type": "hello",
        "parent": os.getpid(),
        "path": sys.path if confinement is None else [entry for entry in sys.path if entry],
        "confinement": confinement,
        "logging": logging_settings,
        "kinds": described,
    }


def write_step(step: Step) -> list[Any]:
    """Return a step as it is sent."""
    return list(step_row("", "", step)[2:])


def claim_fields(claim: Claim) -> dict[str, Any]:
    """Return all of a claim but the input, which is the body."""
    return claim._replace(input="")._asdict()


def read_claim(fields: dict[str, Any], body: bytes) -> Claim:
    """Read what `claim_fields` and the body say."""
    lease, terms = Lease(*fields["lease"]), Terms(*fields["terms"])
    return Claim(**{**fields, "lease": lease, "terms": terms, "input": body.decode()})


def report_fields(report: Report | None) -> list[Any] | None:
    """Return a report as it is sent."""
    if report is None:
        return None
    progress = None if report.progress is None else astuple(report.progress)
    events = [[event.type, event.data] for event in report.events]
    return [progress, report.phase, events, [write_step(step) for step in report.steps]]


def read_report(fields: list[Any] | None) -> Report | None:
    """Read what `report_fields` says."""
    if fields is None:
        return None
    progress, phase, events, steps = fields
    return Report(
        None if progress is None else Progress(*progress),
        phase,
        tuple(NewJobEvent(EventType(type_), data) for type_, data in events),
        tuple(read_step(step) for step in steps),
    )


def file_fields(files: Sequence[SmallFile]) -> list[list[str]]:
    """Return files that go with an attempt's end as they are sent."""
    return [[file.artifact.name, file.artifact.content_type, file.content] for file in files]


def read_files(fields: list[list[str]], lease: Lease, now: int) -> list[SmallFile]:
    """Read what `file_fields` says of a job; ValueError if it is not that."""
    job, files = (lease.tenant, lease.job_id), []
    for name, content_type, content in fields:
        data = b64decode(content, validate=True)
        if len(data) > IN_ROW_BYTES:
            raise ValueError("a file that is too large to go with an attempt's end")
        media_type = check_content_type(content_type, check_name(name))
        files.append(small_file(job, name, media_type, data, now))
    return files


def outcome_fields(outcome: Outcome) -> tuple[dict[str, Any], bytes]:
    """Return how an attempt ended as it is sent, and the result."""
    match outcome:
        case Succeeded():
            return {"how": "succeeded"}, outcome.result.encode()
        case GaveUp():
            return {"how": "gave-up", "error": astuple(outcome.error)}, b""
        case Errored():
            error, after = astuple(outcome.error), outcome.retry_after_ms
            return {"how": "errored", "error": error, "after": after, "why": outcome.reason}, b""
        case Released():
            given = None if outcome.error is None else astuple(outcome.error)
            return {"how": "released", "error": given, "after": outcome.retry_after_ms}, b""
        case Waiting():
            return {"how": "waiting", "until": outcome.until, "groups": outcome.groups}, b""
    raise TypeError(f"a handler cannot end with {outcome!r}")


def read_outcome(fields: dict[str, Any], body: bytes) -> Outcome:
    """Read what `outcome_fields` says."""
    match fields["how"]:
        case "succeeded":
            return Succeeded(body.decode())
        case "gave-up":
            return GaveUp(Failure(*fields["error"]))
        case "errored":
            return Errored(Failure(*fields["error"]), fields["after"], Reason(fields["why"]))
        case "released":
            error = None if fields["error"] is None else Failure(*fields["error"])
            return Released(fields["after"], error)
        case "waiting":
            return Waiting(fields["until"], tuple(tuple(group) for group in fields["groups"]))
    raise ValueError(f"an attempt cannot end with {fields['how']!r}")
