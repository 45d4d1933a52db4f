"""Calls on jobs with steps and waits; each test runs with both clients."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest

from coatcheck import Client, Conflict, InvalidPayload, NotFound
from tests.client.both import FakeTime
from tests.client.script import Play
from tests.client.test_client import PATIENCE_S

MISSING = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def test_large_step_results_are_read_one_by_one(client: Client) -> None:
    size = 700_000
    handle = client.submit("long_steps", size)
    handle.result(PATIENCE_S)

    assert [step["result"] for step in handle.steps()] == ["a" * size, "b" * size]


def test_event_is_sent_to_a_waiting_job(client: Client) -> None:
    handle = client.submit("ask", "Ada")
    for event in handle.events():
        if event.type == "state" and event.data["state"] == "waiting":
            break

    assert handle.send("answer", {"at": datetime(2030, 1, 31, tzinfo=UTC)})["id"] == handle.id

    answer = {"at": "2030-01-31T00:00:00Z"}
    assert handle.result(PATIENCE_S) == ["hello Ada", answer, "hello again"]
    steps = handle.steps()
    assert [(step["op"], step["name"], step["state"]) for step in steps] == [
        ("step", "greet", "succeeded"),
        ("event", "answer", "succeeded"),
        ("step", "greet", "succeeded"),
    ]
    assert steps[1]["result"] == answer
    with pytest.raises(Conflict, match="is succeeded"):
        handle.send("answer")


def test_event_without_data(client: Client) -> None:
    handle = client.submit("ask", "Ada")
    client.send(handle.id, "answer")
    assert handle.result(PATIENCE_S) == ["hello Ada", None, "hello again"]


def test_failed_job_resumes_from_its_last_checkpoint(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "needed"
    handle = client.submit("needs_file", str(file))
    assert client.wait(handle.id, PATIENCE_S)["state"] == "failed"
    before = handle.steps()
    file.write_text("here")

    assert handle.resume()["id"] == handle.id

    assert handle.result(PATIENCE_S) == "here"
    first, second = handle.steps()
    assert first == before[0], "it was not taken again"
    assert (before[1]["state"], second["state"]) == ("failed", "succeeded")
    assert handle.resume()["state"] == "succeeded"


def test_jobs_that_match_a_filter_are_resumed(client: Client, tmp_path: Path) -> None:
    labels = {"test": uuid.uuid4().hex}
    file = tmp_path / "needed"
    handles = [client.submit("needs_file", str(file), labels=labels) for _ in range(3)]
    for handle in handles:
        client.wait(handle.id, PATIENCE_S)
    file.write_text("here")
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)

    assert client.resume_all(labels=labels, kind="echo") == 0
    assert client.resume_all(labels=labels, state="cancelled") == 0
    assert client.resume_all(labels=labels, created_after=an_hour_ago, dry_run=True) == 3
    assert client.resume_all(labels=labels, kind="needs_file", queue="default") == 3

    assert [handle.result(PATIENCE_S) for handle in handles] == ["here"] * 3


def test_job_is_forked_from_a_step(client: Client) -> None:
    handle = client.submit("ask", "Ada", result_type=list)
    handle.send("answer", 1)
    handle.result(PATIENCE_S)

    fork = handle.fork("answer", idempotency_key=(key := uuid.uuid4().hex))

    assert fork.id != handle.id
    assert fork.job["forked_from"] == handle.id
    assert handle.fork("answer", idempotency_key=key).id == fork.id
    fork.send("answer", 2)
    assert fork.result(PATIENCE_S) == ["hello Ada", 2, "hello again"]
    other = handle.fork(0, "Bob")
    other.send("answer", 3)
    assert other.result(PATIENCE_S) == ["hello Bob", 3, "hello again"]
    with pytest.raises(InvalidPayload) as refused:
        handle.fork("nowhere")
    assert [place for place, _ in refused.value.problems] == ["/from_step"]


def test_calls_on_an_unknown_job_raise(client: Client) -> None:
    with pytest.raises(NotFound):
        client.steps(MISSING)
    with pytest.raises(NotFound):
        client.send(MISSING, "answer")
    with pytest.raises(NotFound):
        client.resume_job(MISSING)


JOB = {"id": "7", "kind": "ask", "state": "queued", "finished_at": None}


def test_event_is_retried_under_one_key(play: Play, fake: FakeTime) -> None:
    answers: Iterator[Exception | int] = iter([httpx2.ReadError("cut"), 429, 503, 202])
    keys = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        keys.append(request.headers["idempotency-key"])
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return httpx2.Response(found, json=JOB if found == 202 else {})

    assert play(answer).send("7", "answer", 1) == JOB
    assert len(fake.pauses) == 3
    assert len(keys) == 4
    assert len(set(keys)) == 1
