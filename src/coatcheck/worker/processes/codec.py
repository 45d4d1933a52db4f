"""What a handler in a process asks its worker (operations.py), and the answers, as JSON.

A process runs code that its worker need not trust with more than its job, so what comes from it is
read as data and nothing else.
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
    Question,
    ReadChildren,
    ReadHistory,
    ReadInput,
    ReadPayload,
    RecordSteps,
    RunStep,
    Serve,
    SpawnJob,
)
from coatcheck.worker.steps.step_runner import WorkerRequests

# What a process may hear of beside InvalidPayload.
_ERRORS = {
    *("StaleLease", "UnknownKind", "InvalidInput", "Conflict", "TooLarge", "NotFound"),
    *("StoreUnavailable", "BlobStoreUnavailable", "BlobGone", "BlobDamaged"),
}


class WireRequests(WorkerRequests):
    """The process's side: a Port whose answers come over the wire."""

    def __init__(self, send: Callable[[dict[str, Any], bytes], None]) -> None:
        self._send = send
        self._ids = count()
        self._lock = threading.Lock()
        self._asked: dict[int, tuple[Question, Future[Any]]] = {}

    def ask(self, question: Question) -> Future[Any]:
        """Send a question."""
        future: Future[Any] = Future()
        with self._lock:
            number = next(self._ids)
        if isinstance(question, KeepArtifact):
            for piece in pieces_of(question.data):
                self._send({"type": "piece", "id": number}, piece)
        with self._lock:
            self._asked[number] = (question, future)
        fields, body = write_question(question)
        self._send({"type": "ask", "id": number, "question": fields}, body)
        return future

    @contextlib.contextmanager
    def limited(self, run: RunStep) -> Iterator[None]:
        """Tell the worker when a fatal step begins and ends."""
        if not run.fatal:
            yield
            return
        with self._lock:
            number = next(self._ids)
        limit = {"step": run.body.name, "seconds": run.timeout}
        self._send({"type": "limit", "id": number, "limit": limit}, b"")
        try:
            yield
        finally:
            self._send({"type": "limit", "id": number, "limit": None}, b"")

    def answered(self, number: int, body: bytes) -> None:
        """An answer has come."""
        with self._lock:
            question, future = self._asked.pop(number)
        if not future.set_running_or_notify_cancel():
            return
        answer = json.loads(body)
        if "error" in answer:
            future.set_exception(_read_error(**answer["error"]))
        else:
            future.set_result(_read_answer(question, answer["value"]))


def write_question(question: Question) -> tuple[dict[str, Any], bytes]:  # noqa: C901 - a case each
    """Return a question as it is sent."""
    match question:
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
            return {"what": "place", "group": group, "names": names}, b""
        case Serve(name, body):
            return {"what": "service", "name": name}, body


def read_question(fields: dict[str, Any], body: bytes, file: IO[bytes]) -> Question:  # noqa: C901 - a case each
    """Read what `write_question` says, with what came in pieces before; ValueError if it is not
    that.
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
        case "place":
            return AcquireResource(str(fields["group"]), tuple(map(str, fields["names"])))
        case "service":
            return Serve(str(fields["name"]), body)
    raise ValueError(f"nobody asks for {fields['what']!r}")


def write_answer(question: Question, answer: Task[Any]) -> bytes:
    """Return the answer to a question as it is sent."""
    error = answer.exception()
    if error is not None:
        return write_refusal(error)
    value = answer.result()
    match question:
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


def write_refusal(error: BaseException) -> bytes:
    """Return why a question is not answered as it is sent."""
    problems = getattr(error, "problems", ())
    told = {"name": type(error).__name__, "message": str(error), "problems": problems}
    return json.dumps({"error": told}).encode()


def _read_answer(question: Question, value: Any) -> Any:
    match question:
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
