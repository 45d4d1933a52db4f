"""The calls of both clients beside submit and result."""

from __future__ import annotations

import itertools
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from coatcheck import (
    Client,
    Conflict,
    Gone,
    InvalidInput,
    InvalidPayload,
    KeyReused,
    NewJob,
    Page,
    UnexpectedResult,
)
from tests.client.tasks import Booking
from tests.client.test_client import PATIENCE_S


@pytest.fixture
def label() -> dict[str, str]:
    """What tells the jobs of one test from all others."""
    return {"test": uuid.uuid4().hex}


# --- typed results


@dataclass
class Pair:
    left: int
    right: str


@pytest.mark.parametrize(
    ("value", "result_type", "result"),
    [
        (7, int, 7),
        ("2030-01-31", date, date(2030, 1, 31)),
        ([1, 2], tuple[int, int], (1, 2)),
        ({"left": 1, "right": "x"}, Pair, Pair(1, "x")),
        (None, int | None, None),
        ({"a": [1]}, None, {"a": [1]}),
    ],
)
def test_result_is_converted_to_result_type(
    client: Client, value: Any, result_type: Any, result: Any
) -> None:
    assert client.run("echo", value, PATIENCE_S, result_type=result_type) == result


def test_model_as_input_and_result(client: Client) -> None:
    booking = Booking(guest="Ada", arrival=date(2030, 1, 31))

    found: Booking = client.submit("book", booking, result_type=Booking).result(PATIENCE_S)

    assert found == booking.model_copy(update={"nights": 2})


def test_mismatched_result_raises_with_pointers(client: Client) -> None:
    handle = client.submit("echo", {"left": "x", "right": "y"}, result_type=Pair)

    with pytest.raises(UnexpectedResult, match="does not match result_type: /left") as unexpected:
        handle.result(PATIENCE_S)

    assert [place for place, _ in unexpected.value.problems] == ["/left"]
    assert unexpected.value.result == {"left": "x", "right": "y"}
    assert handle.job["state"] == "succeeded"


def test_invalid_result_type_is_rejected_before_submit(
    client: Client, label: dict[str, str]
) -> None:
    with pytest.raises(InvalidInput, match="cannot be a result type"):
        client.submit("echo", labels=label, result_type=object())

    assert client.list(labels=label).jobs == []


# --- handing in


def test_same_key_is_the_same_job(client: Client) -> None:
    key = uuid.uuid4().hex
    first = client.submit("echo", 7, idempotency_key=key)

    assert client.submit("echo", 7, idempotency_key=key).id == first.id
    assert first.result(PATIENCE_S) == 7
    assert client.submit("echo", 7, idempotency_key=key).job["state"] == "succeeded"
    with pytest.raises(KeyReused, match="used for another request"):
        client.submit("echo", 8, idempotency_key=key)
    first.delete()
    with pytest.raises(Gone):
        client.submit("echo", 7, idempotency_key=key)


def test_batch_is_all_or_none(client: Client, label: dict[str, str]) -> None:
    jobs = [NewJob("echo", number, labels=label, priority=number) for number in range(5)]

    handles = client.submit_batch(jobs)

    assert [handle.result(PATIENCE_S) for handle in handles] == list(range(5))
    assert [handle.job["priority"] for handle in handles] == list(range(5))
    with pytest.raises(InvalidPayload) as refused:
        client.submit_batch([*jobs, NewJob("book", {"guest": 7}, labels=label)])
    assert {place.split("/")[2] for place, _ in refused.value.problems} == {"5"}
    assert len(client.list(labels=label).jobs) == 5


# --- looking


def test_handle_of_a_job_by_its_id(client: Client) -> None:
    job_id = client.submit("echo", 7).id

    assert client.handle(job_id, result_type=int).result(PATIENCE_S) == 7


def test_list_page_by_page(client: Client, label: dict[str, str]) -> None:
    handles = client.submit_batch([NewJob("echo", n, labels=label) for n in range(5)])
    newest_first = [handle.id for handle in reversed(handles)]

    first = client.list(labels=label, limit=3)
    assert isinstance(first, Page)
    assert [job["id"] for job in first.jobs] == newest_first[:3]
    second = client.list(labels=label, limit=3, cursor=first.next_cursor)
    assert [job["id"] for job in second.jobs] == newest_first[3:]
    assert second.next_cursor is None
    assert [job["id"] for job in client.iterate(labels=label, page_size=2)] == newest_first


def test_iterate_reads_pages_as_needed(client: Client, label: dict[str, str]) -> None:
    client.submit_batch([NewJob("echo", n, labels=label) for n in range(5)])
    jobs = client.iterate(labels=label, page_size=1)

    assert len(list(itertools.islice(jobs, 2))) == 2
    jobs.close()


def test_list_with_filters(client: Client, label: dict[str, str]) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    later = datetime.now(UTC) + timedelta(days=1)
    echo = client.submit("echo", labels=label, queue="slow", run_at=later)
    chat = client.submit("chat", 1, labels={**label, "team": "kitchen"}, run_at=later)

    def ids(**which: Any) -> list[str]:
        return [job["id"] for job in client.list(labels=which.pop("labels", label), **which).jobs]

    assert ids() == [chat.id, echo.id]
    assert ids(kind="echo") == ids(queue="slow") == [echo.id]
    assert ids(labels={**label, "team": "kitchen"}) == [chat.id]
    assert ids(state="queued", created_after=before) == [chat.id, echo.id]
    assert ids(state="succeeded") == ids(created_after=later) == []
    with pytest.raises(InvalidInput, match="state must be one of"):
        ids(state="asleep")


def test_explain_a_job(client: Client) -> None:
    handle = client.submit("echo", run_at=datetime.now(UTC) + timedelta(days=1))

    [reason] = handle.explain()
    assert reason["code"] == "delayed"
    assert "scheduled to start at" in reason["message"]


def test_list_kinds(client: Client) -> None:
    kinds = {kind["name"]: kind for kind in client.kinds()}

    assert {"echo", "book", "meet"} <= set(kinds)
    assert set(kinds["book"]["input_schema"]["properties"]) == {"guest", "arrival", "nights"}


# --- deleting, queues


def test_delete_a_finished_job(client: Client, pipe: Path) -> None:
    handle = client.submit("meet", str(pipe))
    with pipe.open("w") as writing:
        with pytest.raises(Conflict):
            handle.delete()
        writing.write("done")
    handle.result(PATIENCE_S)

    receipt = handle.delete()

    assert receipt["id"] == handle.id
    assert receipt["removed"]["jobs"] == 1
    with pytest.raises(Gone):
        handle.refresh()
    with pytest.raises(Gone):
        client.delete(handle.id)


def test_pause_and_resume_a_queue(client: Client) -> None:
    queue = f"q-{uuid.uuid4().hex}"
    assert client.pause(queue)["paused"]
    handle = client.submit("echo", 7, queue=queue)

    assert {found["name"]: found for found in client.queues()}[queue]["ready"] == 1
    assert [reason["code"] for reason in handle.explain()] == ["paused"]
    assert not client.resume(queue)["paused"]
    assert handle.result(PATIENCE_S) == 7


# --- events


def test_events_of_a_job_until_it_finishes(client: Client) -> None:
    handle = client.submit("chat", 3)

    events = list(handle.events())

    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [event.data["number"] for event in events if event.type == "log"] == [0, 1, 2]
    states = [event.data["state"] for event in events if event.type == "state"]
    assert states == ["queued", "running", "succeeded"]
    assert all(event.at.tzinfo is UTC for event in events)
    assert handle.job["result"] == 3, "the end brings the job as it ended"
    assert list(handle.events(after=events[-3].seq)) == events[-2:]
    assert list(handle.events(after=events[-1].seq)) == []


def test_events_of_a_running_job(client: Client, pipe: Path) -> None:
    handle = client.submit("say_and_meet", str(pipe))

    messages = []
    for event in handle.events():
        if event.type == "log":
            messages.append(event.data["message"])
            if len(messages) == 1:
                pipe.write_text("go on")

    assert messages == ["before", "after"]


def test_stop_iterating_early(client: Client, pipe: Path) -> None:
    handle = client.submit("meet", str(pipe))
    events = handle.events()
    assert next(events).seq == 1
    events.close()

    with pipe.open("w") as writing:
        writing.write("done")
    assert handle.result(PATIENCE_S) == "done"


def test_position_beyond_the_log_resets_the_stream(client: Client) -> None:
    handle = client.submit("chat", 1)
    handle.result(PATIENCE_S)

    [reset] = handle.events(after=1000)

    assert (reset.type, reset.data["state"]) == ("reset", "succeeded")


def test_events_of_a_deleted_job_raise(client: Client) -> None:
    handle = client.submit("echo", 7)
    handle.result(PATIENCE_S)
    handle.delete()

    with pytest.raises(Gone):
        list(handle.events())
