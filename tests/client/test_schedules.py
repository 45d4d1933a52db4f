"""Schedules through both clients."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

import httpx2
import pytest

from coatcheck import Client, Conflict, InvalidPayload, NotFound, Unreachable
from tests.client.script import Play, Script, answer
from tests.client.test_client import PATIENCE_S


@pytest.fixture
def name() -> str:
    return f"s{uuid.uuid4().hex}"


def test_schedule_life_cycle(client: Client, name: str) -> None:
    made = client.put_schedule(
        name,
        "echo",
        {"on": datetime(2030, 1, 31, tzinfo=UTC)},
        cron="0 3 1 1 *",
        timezone="Europe/Berlin",
        priority=5,
        labels={"a": "b"},
        overlap="skip",
        catch_up="skip",
    )
    assert (made["input"], made["priority"]) == ({"on": "2030-01-31T00:00:00Z"}, 5)
    assert (made["overlap"], made["catch_up"], made["labels"]) == ("skip", "skip", {"a": "b"})
    assert client.schedule(name) == made
    assert client.schedules() and made in client.schedules()
    first, second = client.ticks(name, 2)
    assert first == made["next_at"]
    assert first[4:] == second[4:] == "-01-01T02:00:00.000Z"

    assert client.pause_schedule(name)["paused"] is True
    assert client.resume_schedule(name)["next_at"] == made["next_at"]
    handle = client.trigger(name)
    assert handle.result(PATIENCE_S) == {"on": "2030-01-31T00:00:00Z"}
    [job] = client.list(labels={"schedule": name}).jobs
    assert job["id"] == handle.id == client.schedule(name)["last_job"]

    client.delete_schedule(name)
    for verb in (client.schedule, client.delete_schedule, client.trigger, client.ticks):
        with pytest.raises(NotFound):
            verb(name)


def test_interval_schedule_submits_jobs(client: Client, name: str) -> None:
    client.put_schedule(
        name, "echo", "tick", every_s=1, start_at=datetime(2020, 1, 1, 0, 0, 0, 500_000, UTC)
    )
    try:
        while not (last := client.schedule(name)["last_job"]):
            # Any wait that ends with the next tick would do; another job is one.
            client.run("echo", None, PATIENCE_S)
        assert client.handle(last).result(PATIENCE_S) == "tick"
        assert client.get(last)["run_at"].endswith(".500Z")
    finally:
        client.delete_schedule(name)


def test_invalid_schedule_raises_with_pointers(client: Client, name: str) -> None:
    with pytest.raises(InvalidPayload) as refused:
        client.put_schedule(name, "echo", cron="0 99 * * *")
    assert dict(refused.value.problems) == {"/cron": "hour: 99 is not between 0 and 23"}
    with pytest.raises(InvalidPayload):
        client.put_schedule(name, "echo", object(), every_s=5)


def test_schedules_are_read_in_pages(play: Play) -> None:
    script = Script(
        answer(200, {"schedules": [{"name": "a"}], "next_cursor": "x"}),
        answer(200, {"schedules": [{"name": "b"}], "next_cursor": None}),
    )
    assert [one["name"] for one in play(script).schedules()] == ["a", "b"]
    assert script.requests[1].url.params["cursor"] == "x"


def test_trigger_is_retried_under_one_key(play: Play) -> None:
    script = Script(httpx2.ReadError("reset"), answer(503), answer(202))
    play(script).trigger("nightly")
    keys = {request.headers["idempotency-key"] for request in script.requests}
    assert (len(script.requests), len(keys)) == (3, 1)


def test_delete_with_a_lost_response_succeeds(play: Play) -> None:
    play(Script(httpx2.ReadError("reset"), answer(404, {}))).delete_schedule("nightly")
    with pytest.raises(NotFound):
        play(Script(answer(404, {}))).delete_schedule("nightly")
    with pytest.raises(Conflict):
        play(Script(answer(409, {}))).put_schedule("nightly", "echo", every_s=5)
    with pytest.raises(Unreachable):
        play(Script(httpx2.ConnectError("refused"))).pause_schedule("nightly")
