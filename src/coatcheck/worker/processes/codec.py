"""The requests of a handler in a process (steps/effects.py), and their responses, as JSON.

The worker need not trust the code in a process with more than its own job, so all input from a
process is read as plain data.
"""

from __future__ import annotations

import contextlib
import json
import threading
from asyncio import Task
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import astuple
from itertools import count
from pathlib import Path
from typing import IO, Any

from coatcheck import errors
from coatcheck.blobs.blobs import pieces_of
from coatcheck.model.artifact import Artifact
from coatcheck.model.job import Failure
from coatcheck.model.state import State
from coatcheck.model.step import SentEvent
from coatcheck.store.shared.rows import read_step
from coatcheck.worker.processes.wire import write_step
from coatcheck.worker.steps.effects import (
    AcquireResource,
    ChildStatus,
    FetchUpload,
    KeepArtifact,
    ReadChildren,
    ReadHistory,
    ReadInput,
    ReadPayload,
    RecordSteps,
    RunStep,
    Serve,
    SpawnJob,
    WorkerRequest,
)
from coatcheck.worker.steps.step_runner import HandlerRequests

# Errors that are passed on to a process, beside InvalidPayload.
_ERRORS = {
    *("StaleLease", "UnknownKind", "InvalidInput", "Conflict", "TooLarge", "NotFound"),
    *("StoreUnavailable", "BlobStoreUnavailable", "BlobGone", "BlobDamaged"),
}


class WireRequests(HandlerRequests):
    """The process's side: requests that are sent to the worker over the wire."""

    def __init__(
        self, send: Callable[[dict[str, Any], bytes], None], report_soon: Callable[[], None]
    ) -> None:
        self._send = send
        self._report_soon = report_soon
        self._ids = count()
        self._lock = threading.Lock()
        self._pending: dict[int, tuple[WorkerRequest, Future[Any]]] = {}

    def send(self, request: WorkerRequest) -> Future[Any]:
        """Send a request."""
        future: Future[Any] = Future()
        with self._lock:
            number = next(self._ids)
        if isinstance(request, KeepArtifact):
            for piece in pieces_of(request.data):
                self._send({"type": "chunk", "id": number}, piece)
        with self._lock:
            self._pending[number] = (request, future)
        fields, body = write_request(request)
        self._send({"type": "request", "id": number, "request": fields}, body)
        return future

    def report_soon(self) -> None:
        """Have the handler's report sent soon."""
        self._report_soon()

    @contextlib.contextmanager
    def limit_step(self, run: RunStep) -> Iterator[None]:
        """Tell the worker when a fatal step begins and ends."""
        if not run.fatal:
            yield
            return
        with self._lock:
            number = next(self._ids)
        limit = {"step": run.function.name, "seconds": run.timeout}
        self._send({"type": "limit", "id": number, "limit": limit}, b"")
        try:
            yield
        finally:
            self._send({"type": "limit", "id": number, "limit": None}, b"")

    def receive(self, number: int, body: bytes) -> None:
        """Complete a request with its response."""
        with self._lock:
            request, future = self._pending.pop(number)
        if not future.set_running_or_notify_cancel():
            return
        response = json.loads(body)
        if "error" in response:
            future.set_exception(_read_error(**response["error"]))
        else:
            future.set_result(_read_response(request, response["value"]))


def write_request(request: WorkerRequest) -> tuple[dict[str, Any], bytes]:  # noqa: C901 - a case each
    """Serialize a request."""
    match request:
        case ReadHistory():
            return {"what": "history"}, b""
        case RecordSteps(steps):
            return {"what": "record"}, json.dumps([write_step(step) for step in steps]).encode()
        case SpawnJob(step, kind, input_, steps):
            rows = [write_step(each) for each in (step, *steps)]
            return {"what": "spawn", "kind": kind, "steps": rows}, input_.encode()
        case ReadChildren(ids):
            return {"what": "children"}, json.dumps(ids).encode()
        case KeepArtifact(name, _, content_type):
            return {"what": "artifact", "name": name, "content_type": content_type}, b""
        case ReadInput():
            return {"what": "input"}, b""
        case ReadPayload(reference):
            return {"what": "payload", "reference": reference}, b""
        case FetchUpload(upload_id):
            return {"what": "upload", "upload": upload_id}, b""
        case AcquireResource(group, names):
            return {"what": "resource", "group": group, "names": names}, b""
        case Serve(name, body):
            return {"what": "service", "name": name}, body


def read_request(fields: dict[str, Any], body: bytes, file: IO[bytes]) -> WorkerRequest:  # noqa: C901 - a case each
    """Deserialize a request, with the file whose chunks came before it. Raise ValueError if it is
    invalid.
    """
    match fields["what"]:
        case "history":
            return ReadHistory()
        case "record":
            return RecordSteps(tuple(read_step(row) for row in json.loads(body)))
        case "spawn":
            step, *steps = (read_step(row) for row in fields["steps"])
            return SpawnJob(step, str(fields["kind"]), body.decode(), tuple(steps))
        case "children":
            return ReadChildren(tuple(map(str, json.loads(body))))
        case "artifact":
            return KeepArtifact(str(fields["name"]), file, str(fields["content_type"]))
        case "input":
            return ReadInput()
        case "payload":
            return ReadPayload(str(fields["reference"]))
        case "upload":
            return FetchUpload(str(fields["upload"]))
        case "resource":
            return AcquireResource(str(fields["group"]), tuple(map(str, fields["names"])))
        case "service":
            return Serve(str(fields["name"]), body)
    raise ValueError(f"unknown request {fields['what']!r}")


def write_response(request: WorkerRequest, response: Task[Any]) -> bytes:
    """Serialize the response to a request."""
    error = response.exception()
    if error is not None:
        return write_error(error)
    value = response.result()
    match request:
        case ReadHistory():
            steps, messages = value
            value = [list(map(write_step, steps)), list(map(astuple, messages))]
        case ReadChildren():
            value = list(map(astuple, value))
        case FetchUpload():
            value = str(value)
        case Serve():
            value = b64encode(value).decode()
    return json.dumps({"value": value}).encode()


def write_error(error: BaseException) -> bytes:
    """Serialize the error of a request."""
    problems = getattr(error, "problems", ())
    fields = {"name": type(error).__name__, "message": str(error), "problems": problems}
    return json.dumps({"error": fields}).encode()


def _read_response(request: WorkerRequest, value: Any) -> Any:
    match request:
        case ReadHistory():
            steps, messages = value
            return list(map(read_step, steps)), [SentEvent(*fields) for fields in messages]
        case ReadChildren():
            return [
                ChildStatus(
                    None if state is None else State(state),
                    result,
                    None if error is None else Failure(*error),
                )
                for state, result, error in value
            ]
        case KeepArtifact():
            return Artifact(*value)
        case FetchUpload():
            return Path(value)
        case Serve():
            return b64decode(value)
    return value


def _read_error(name: str, message: str, problems: list[tuple[str, str]]) -> Exception:
    if name == "InvalidPayload":
        return errors.InvalidPayload(message, problems)
    kind = getattr(errors, name, None)
    if name in _ERRORS and kind is not None:
        return kind(message)  # type: ignore[no-any-return]  # one of those
    return errors.CoatcheckError(f"{name}: {message}")
