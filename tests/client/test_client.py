"""The Python clients in typical use; each test runs with both."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from coatcheck import (
    Client,
    CoatcheckError,
    InvalidInput,
    InvalidPayload,
    JobCancelled,
    JobFailed,
    NotFound,
    TimedOut,
)
from tests.client.tasks import Booking

PATIENCE_S = 60.0


def test_submit_a_job_and_wait_for_its_result(client: Client) -> None:
    handle = client.submit("echo", {"tickets": [1, 2, 3]})

    assert handle.job["state"] == "queued"
    assert handle.result(timeout=PATIENCE_S) == {"tickets": [1, 2, 3]}
    assert handle.job["state"] == "succeeded"
    assert repr(handle).endswith(f"JobHandle {handle.id} echo succeeded>")


def test_run_a_job_in_one_call(client: Client) -> None:
    assert client.run("echo", "hello", timeout=PATIENCE_S) == "hello"


def test_read_a_job_by_its_id(client: Client) -> None:
    handle = client.submit("echo", 7)
    client.wait(handle.id, PATIENCE_S)

    assert client.get(handle.id) == handle.refresh() == handle.job
    assert handle.job["result"] == 7


def test_submit_with_options(client: Client) -> None:
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    job = client.submit(
        "echo",
        queue="slow",
        priority=5,
        labels={"team": "kitchen"},
        run_at=later,
        deadline_s=7200,
        max_attempts=9,
    ).job

    assert (job["queue"], job["priority"], job["max_attempts"]) == ("slow", 5, 9)
    assert job["labels"] == {"team": "kitchen"}
    assert datetime.fromisoformat(job["run_at"]) == later


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}, "naïve 🎟️", [1.5, None, {"a": "b"}]])
def test_any_json_as_input_and_result(client: Client, value: Any) -> None:
    assert client.run("echo", value, timeout=PATIENCE_S) == value


def test_datetime_as_input(client: Client) -> None:
    assert client.run("weekday", datetime(2024, 2, 29, 12, tzinfo=UTC), timeout=PATIENCE_S) == (
        "Thursday"
    )


def test_pydantic_model_as_input_returns_json(client: Client) -> None:
    booking = Booking(guest="Ada", arrival=date(2030, 1, 31))

    assert client.run("book", booking, timeout=PATIENCE_S) == {
        "guest": "Ada",
        "arrival": "2030-01-31",
        "nights": 2,
    }


def test_values_inside_a_dict_are_serialized(client: Client) -> None:
    value = {"id": UUID(int=7), "path": Path("a/b"), "when": date(2030, 1, 31), "tags": ("x",)}

    assert client.run("echo", value, timeout=PATIENCE_S) == {
        "id": "00000000-0000-0000-0000-000000000007",
        "path": "a/b",
        "when": "2030-01-31",
        "tags": ["x"],
    }


def test_job_that_raises_fail_raises_with_code_and_reason(client: Client) -> None:
    handle = client.submit("give_up")

    with pytest.raises(JobFailed, match="no seats left") as failure:
        handle.result(timeout=PATIENCE_S)

    assert failure.value.error_code == "sold-out"
    assert failure.value.reason == "error"
    assert failure.value.job_id == handle.id
    assert failure.value.code == "job-failed"


def test_crashed_job_raises_the_error_of_its_handler(client: Client) -> None:
    with pytest.raises(JobFailed, match="RuntimeError: out of luck") as failure:
        client.run("crash", timeout=PATIENCE_S)

    assert failure.value.error_code == "handler-error"


def test_job_timeout_raises_with_reason(client: Client) -> None:
    with pytest.raises(JobFailed) as failure:
        client.run("too_slow", timeout=PATIENCE_S)

    assert failure.value.error_code == "timeout"
    assert failure.value.reason == "timeout"


def test_wait_includes_retries(client: Client) -> None:
    assert client.run("second_try", timeout=PATIENCE_S) == 2


def test_job_cancelled_while_queued_raises(client: Client) -> None:
    handle = client.submit("echo", run_at=datetime.now(UTC) + timedelta(days=1))

    assert handle.cancel()["state"] == "cancelled"
    with pytest.raises(JobCancelled) as cancelled:
        handle.result(timeout=PATIENCE_S)
    assert cancelled.value.job_id == handle.id


def test_job_cancelled_while_running_raises(client: Client, pipe: Path) -> None:
    handle = client.submit("report_and_wait", str(pipe))
    assert pipe.read_text() == "running"

    client.cancel(handle.id)

    with pytest.raises(JobCancelled):
        handle.result(timeout=PATIENCE_S)


def test_wait_timeout_leaves_the_job_running(client: Client, pipe: Path) -> None:
    handle = client.submit("meet", str(pipe))

    with pipe.open("w") as writing:
        # The handler has opened its end: it runs.
        with pytest.raises(TimedOut, match="still running") as timed_out:
            handle.result(timeout=0.2)
        assert timed_out.value.job_id == handle.id
        assert client.wait(handle.id, timeout=0)["state"] == "running"
        writing.write("here I am")

    assert handle.result(timeout=PATIENCE_S) == "here I am"


def test_unknown_job_raises(client: Client) -> None:
    for verb in (client.get, client.cancel, client.wait):
        with pytest.raises(NotFound, match="there is no job"):
            verb("01ARZ3NDEKTSV4RRFFQ69G5FAV")


def test_invalid_input_raises_with_pointers(client: Client) -> None:
    with pytest.raises(InvalidPayload, match="does not fit kind 'book'") as refused:
        client.submit("book", {"guest": 7, "arrival": "someday"})

    places = dict(refused.value.problems)
    assert set(places) == {"/input/guest", "/input/arrival"}
    assert all(places.values())


def test_unknown_kind_raises(client: Client) -> None:
    with pytest.raises(InvalidInput, match="there is no kind 'bok'"):
        client.submit("bok")


def test_time_without_offset_raises(client: Client) -> None:
    with pytest.raises(InvalidPayload, match="run_at"):
        client.submit("echo", run_at=datetime(2030, 1, 31))  # noqa: DTZ001 - the mistake itself


@pytest.mark.parametrize("size", [1_100_000, 2_000_000, 10_000_000])
def test_oversized_input_raises(client: Client, size: int) -> None:
    with pytest.raises(InvalidInput, match="larger than"):
        client.submit("echo", "x" * size)


def test_server_errors_are_coatcheck_errors(client: Client) -> None:
    with pytest.raises(CoatcheckError):
        client.submit("echo", queue="two words")
