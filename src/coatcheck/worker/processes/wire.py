"""The protocol between a worker and a process that runs handlers for it.

Each process has one stream socket, which it shares with its worker only. The worker alone accesses
the store; the process does not know it. A message is a frame: two lengths (four bytes each,
big-endian), a header of that many bytes of JSON with a `type`, and a body of that many bytes, which
is an input or a result. Either side may send at any time.

From the worker:

- `hello` comes first: where to import from, how to log, which kinds there are, and how a process of
  confined kinds locks itself down (confined.py).
- `job`: run this attempt. It has a number, which all messages about the attempt carry, so that a
  late message is never taken for one of the next job. The body is the input.
- `interrupt`: stop the attempt, and why.
- `response`: the response to a request.
- `stop`: exit as soon as no attempt runs.

From the process:

- `ready` when it has imported every handler, or `broken` and the reason.
- `started` just before the handler is called. If a process dies before that, it has not touched the
  job, which goes to another process.
- `report`: the handler's reports since the last message. A process sends one at once, and then at
  most one every `REPORT_EVERY_S`, however often `ctx` is called.
- `request`: a request of the handler to its worker (worker/processes/codec.py), with an id that the
  `response` repeats.
- `chunk`: some bytes of an artifact, for the `request` of the same id that follows. The worker
  collects them, on its disk if they are many.
- `limit`: a step with a limit in seconds has begun, or the step of the same id has ended. The
  worker kills a process whose step exceeds its limit.
- `done`: the attempt's outcome, with all unsent reports, and the files that are written with the
  outcome. The body is the result. `fit` is false if the process should not be used again.

Neither side waits for the other to read. The worker's side never blocks on a write, and the process
has a thread that only reads. So frames larger than the kernel's buffers can pass in both directions
at once.

Failures: if the process ends in the middle of a frame, the frame is dropped. If the worker ends,
the process reads the end of the stream and kills its own process group (orphans.py). If a handler
writes garbage to the socket, the worker kills the process.
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
# Bytes to read at a time.
CHUNK = 1 << 18

_LENGTHS = struct.Struct("!II")


class WireMessage(NamedTuple):
    """A message: a header, whose `type` says what it is, and a body."""

    header: dict[str, Any]
    body: bytes = b""

    @property
    def type(self) -> str:
        """The type of the message."""
        return str(self.header["type"])


def frame(header: dict[str, Any], body: bytes = b"") -> bytes:
    """Serialize a message."""
    text = json.dumps(header).encode()
    return _LENGTHS.pack(len(text), len(body)) + text + body


class Splitter:
    """Splits a stream of bytes into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[WireMessage]:
        """Add received bytes, and yield the messages that are complete.

        Raise ValueError if the bytes are not valid. The messages before them have been yielded, and
        count.
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


# --- the contents of messages


def hello_fields(
    kinds: Sequence[Kind], settings: Settings, confinement: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the first message to a process."""
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
    """Serialize a step."""
    return list(step_row("", "", step)[2:])


def claim_fields(claim: Claim) -> dict[str, Any]:
    """Serialize a claim, except for the input, which is the body."""
    return claim._replace(input="")._asdict()


def read_claim(fields: dict[str, Any], body: bytes) -> Claim:
    """Deserialize a claim, with the input from the body."""
    lease, terms = Lease(*fields["lease"]), Terms(*fields["terms"])
    return Claim(**{**fields, "lease": lease, "terms": terms, "input": body.decode()})


def report_fields(report: Report | None) -> list[Any] | None:
    """Serialize a report."""
    if report is None:
        return None
    progress = None if report.progress is None else astuple(report.progress)
    events = [[event.type, event.data] for event in report.events]
    return [progress, report.phase, events, [write_step(step) for step in report.steps]]


def read_report(fields: list[Any] | None) -> Report | None:
    """Deserialize a report."""
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
    """Serialize files that are written with an attempt's outcome."""
    return [[file.artifact.name, file.artifact.content_type, file.content] for file in files]


def read_files(fields: list[list[str]], lease: Lease, now: int) -> list[SmallFile]:
    """Deserialize the files of a job; raise ValueError if they are not valid."""
    job, files = (lease.tenant, lease.job_id), []
    for name, content_type, content in fields:
        data = b64decode(content, validate=True)
        if len(data) > IN_ROW_BYTES:
            raise ValueError("the file is too large to be written with an outcome")
        media_type = check_content_type(content_type, check_name(name))
        files.append(small_file(job, name, media_type, data, now))
    return files


def outcome_fields(outcome: Outcome) -> tuple[dict[str, Any], bytes]:
    """Serialize an outcome. The body is the result."""
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
    raise TypeError(f"not an outcome of a handler: {outcome!r}")


def read_outcome(fields: dict[str, Any], body: bytes) -> Outcome:
    """Deserialize an outcome."""
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
    raise ValueError(f"unknown outcome {fields['how']!r}")
