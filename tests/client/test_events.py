"""The event stream of a job, with a scripted server and a fake clock."""

from __future__ import annotations

import json

import httpx2
import pytest

from coatcheck import Event, StoreUnavailable, Unauthorized, UnexpectedAnswer, Unreachable
from tests.client.both import FakeTime
from tests.client.script import JOB, Play, Script, answer

HANDLE = answer(200)


def stream(*messages: str) -> httpx2.Response:
    return httpx2.Response(200, text="".join(messages), headers={"content-type": "text/plain"})


def said(seq: int) -> str:
    event = {"seq": seq, "type": "log", "at": "2030-01-31T09:00:00.000Z", "data": {"n": seq}}
    return f"id: {seq}\nevent: log\ndata: {json.dumps(event)}\n\n"


END = f"id: 9\nevent: end\ndata: {json.dumps({**JOB, 'state': 'succeeded'})}\n\n"
RETRY = "retry: 1500\n\n"


def follow(play: Play, script: Script) -> list[Event]:
    return list(play(script).handle("7").events())


def positions(script: Script) -> list[str | None]:
    return [request.headers.get("last-event-id") for request in script.requests[1:]]


def test_stream_that_ends_early_is_reopened_at_its_position(play: Play, fake: FakeTime) -> None:
    script = Script(HANDLE, stream(RETRY, said(1), said(2)), stream(said(3)), stream(END))

    assert [event.seq for event in follow(play, script)] == [1, 2, 3]

    assert positions(script) == [None, "2", "3"]
    assert fake.pauses[0] == 1.5, "the pause that the stream asks for"


def test_repeated_event_is_dropped(play: Play) -> None:
    script = Script(HANDLE, stream(said(1), said(2)), stream(said(1), said(2), said(3), END))

    assert [event.seq for event in follow(play, script)] == [1, 2, 3]


def test_finished_log_is_not_read_again(play: Play) -> None:
    script = Script(HANDLE, stream(said(1), said(2)), httpx2.Response(204))

    assert [event.seq for event in follow(play, script)] == [1, 2]


def test_stream_is_requested_uncompressed(play: Play) -> None:
    script = Script(HANDLE, stream(END))
    follow(play, script)

    assert script.requests[1].headers["accept"] == "text/event-stream"
    assert script.requests[1].headers["accept-encoding"] == "identity"


def test_retry_after_is_respected(play: Play, fake: FakeTime) -> None:
    follow(play, Script(HANDLE, answer(503, {"detail": "full"}, retry_after="9"), stream(END)))

    [pause] = fake.pauses
    assert 9 <= pause <= 9.9


def test_unreachable_server_is_given_up(play: Play, fake: FakeTime) -> None:
    script = Script(HANDLE, stream(said(1)), httpx2.ConnectError("refused"))
    events = play(script, retry_for=20).handle("7").events()

    assert next(events).seq == 1
    with pytest.raises(Unreachable, match="cannot reach the server"):
        next(events)
    assert 10 < fake.now <= 21


def test_unavailable_store_raises(play: Play) -> None:
    with pytest.raises(StoreUnavailable, match="disk full"):
        follow(play, Script(HANDLE, answer(503, {"detail": "disk full"}, retry_after="5")))


def test_long_job_behind_a_cutting_proxy_is_followed(play: Play, fake: FakeTime) -> None:
    def silence(_request: httpx2.Request) -> httpx2.Response:
        fake.now += 30
        return stream(RETRY, ": still here\n\n")

    assert follow(play, Script(HANDLE, *[silence] * 500, stream(said(1), END)))

    assert max(fake.pauses) <= 5


def test_error_response_raises(play: Play) -> None:
    with pytest.raises(Unauthorized, match="no"):
        follow(play, Script(HANDLE, answer(401, {"detail": "no"})))


@pytest.mark.parametrize(
    "message", ["event: log\ndata: {}\n\n", "id: 1\ndata: [\n\n", "id: x\ndata: 1\n\n"]
)
def test_foreign_stream_raises(play: Play, message: str) -> None:
    with pytest.raises(UnexpectedAnswer, match="that is no event"):
        follow(play, Script(HANDLE, stream(message)))
