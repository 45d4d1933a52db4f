"""Retries and their pauses, with a scripted server and a fake clock."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from coatcheck import (
    CoatcheckError,
    Conflict,
    Gone,
    InvalidInput,
    InvalidPayload,
    KeyReused,
    NewJob,
    NotFound,
    Overloaded,
    StoreUnavailable,
    Unauthorized,
    UnexpectedAnswer,
    UnknownKind,
    Unreachable,
)
from tests.client.both import FakeTime
from tests.client.script import JOB, Play, Reply, Script, answer


@pytest.mark.parametrize(
    "trouble",
    [
        httpx2.ConnectError("refused"),
        httpx2.ConnectTimeout("too slow"),
        httpx2.ReadError("reset"),
        httpx2.ReadTimeout("too slow"),
        httpx2.WriteError("broken pipe"),
        httpx2.RemoteProtocolError("half an answer"),
        *(httpx2.Response(status) for status in (408, 429, 502, 503, 504)),
        httpx2.Response(409, headers={"Retry-After": "1"}),
    ],
    ids=lambda trouble: str(getattr(trouble, "status_code", type(trouble).__name__)),
)
def test_submit_is_retried_under_one_key(play: Play, fake: FakeTime, trouble: Reply) -> None:
    script = Script(trouble, trouble, answer(202))

    assert play(script).submit("echo", 7).id == JOB["id"]

    assert len(script.requests) == 3
    [key] = {request.headers["idempotency-key"] for request in script.requests}
    assert len(key) == 32
    assert len({request.content for request in script.requests}) == 1
    assert len(fake.pauses) == 2


def test_each_submit_has_its_own_key_unless_one_is_given(play: Play) -> None:
    script = Script(answer(202))
    client = play(script)

    client.submit("echo")
    client.submit("echo")
    client.submit("echo", idempotency_key="order 7")

    keys = [request.headers["idempotency-key"] for request in script.requests]
    assert len(set(keys)) == 3
    assert keys[2] == "order 7"


def test_batch_is_retried_under_one_key(play: Play) -> None:
    script = Script(httpx2.ReadError("reset"), answer(202, {"jobs": [JOB, JOB]}))

    assert len(play(script).submit_batch([NewJob("echo", 1), NewJob("echo", 2)])) == 2

    first, second = script.requests
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 413, 415, 422, 500])
def test_client_errors_are_not_retried(play: Play, status: int) -> None:
    script = Script(answer(status, {"detail": "no"}))

    with pytest.raises(CoatcheckError):
        play(script).submit("echo")

    assert len(script.requests) == 1


def test_retry_after_is_respected(play: Play, fake: FakeTime) -> None:
    date = {"date": "Thu, 31 Jan 2030 09:00:00 GMT", "retry_after": "Thu, 31 Jan 2030 09:00:20 GMT"}
    script = Script(answer(503, retry_after="7"), answer(429, **date), answer(202))

    play(script).submit("echo")

    first, second = fake.pauses
    assert 7 <= first <= 7.7
    assert 20 <= second <= 22


def test_retry_after_beyond_the_deadline_gives_up(play: Play, fake: FakeTime) -> None:
    with pytest.raises(Overloaded, match="enough for today"):
        play(Script(answer(429, {"detail": "enough for today"}, retry_after="3600"))).submit("echo")

    assert fake.pauses == []


def test_pauses_double_up_to_a_limit_with_jitter(play: Play, fake: FakeTime) -> None:
    with pytest.raises(Unreachable):
        play(Script(httpx2.ReadError("reset")), retry_for=100).submit("echo")

    assert sum(fake.pauses) <= 100
    assert fake.now > 90
    for attempt, pause in enumerate(fake.pauses):
        longest = min(5.0, 0.1 * 2**attempt)
        assert longest / 2 <= pause <= longest
    assert len({pause / 5 for pause in fake.pauses[-5:]}) > 1


def test_unreachable_server_has_a_clear_message(play: Play, fake: FakeTime) -> None:
    refused = httpx2.ConnectError("All connection attempts failed")
    refused.__cause__ = ConnectionRefusedError(111, "Connection refused")

    with pytest.raises(Unreachable) as unreachable:
        play(Script(refused), retry_for=1).get("01ARZ3NDEKTSV4RRFFQ69G5FAV")

    assert str(unreachable.value) == (
        "cannot reach the server at http://coats.example:8080: the connection was refused; "
        "is the server running, and is the address right?"
    )
    assert unreachable.value.__cause__ is None


def test_lost_submit_can_be_repeated_later_with_its_key(play: Play) -> None:
    script = Script(httpx2.ReadError("reset"))
    with pytest.raises(Unreachable) as unreachable:
        play(script, retry_for=1).submit("echo")

    [key] = {request.headers["idempotency-key"] for request in script.requests}
    assert unreachable.value.idempotency_key == key


def test_partial_replay_of_a_batch_raises(play: Play) -> None:
    with pytest.raises(Gone, match="1 of the 2 jobs"):
        play(Script(answer(202, {"jobs": [JOB]}))).submit_batch([NewJob("echo"), NewJob("echo")])


def test_oversized_submit_is_not_retried(play: Play) -> None:
    script = Script(httpx2.WriteError("broken pipe"))
    with pytest.raises(
        InvalidInput, match=r"of 1,500,\d{3} bytes, which is larger than its limit of 1,048,576"
    ):
        play(script).submit("echo", "x" * 1_500_000)

    assert len(script.requests) == 1


def test_delete_with_a_lost_receipt_succeeds(play: Play) -> None:
    script = Script(httpx2.ReadError("reset"), answer(410, {"detail": "gone"}))

    assert play(script).delete("7") == {"id": "7", "deleted_at": None, "removed": None}
    with pytest.raises(Gone):
        play(Script(answer(410, {"detail": "gone"}))).delete("7")


@pytest.mark.parametrize(
    ("status", "problem", "error"),
    [
        (400, {"detail": "why"}, InvalidInput),
        (401, {"detail": "why"}, Unauthorized),
        (403, {"detail": "why"}, Unauthorized),
        (404, {"detail": "why"}, NotFound),
        (409, {"detail": "why"}, Conflict),
        (410, {"detail": "why"}, Gone),
        (413, {"detail": "why"}, InvalidInput),
        (422, {"detail": "why"}, InvalidPayload),
        (422, {"detail": "why", "type": "urn:coatcheck:unknown-kind"}, UnknownKind),
        (422, {"detail": "why", "type": "urn:coatcheck:idempotency-key-reused"}, KeyReused),
        (429, {"detail": "why"}, Overloaded),
        (500, {"detail": "why"}, UnexpectedAnswer),
        (503, {"detail": "why"}, StoreUnavailable),
        (502, ["why"], Unreachable),
        (504, "why", Unreachable),
        (422, {"detail": "why", "errors": ["not", "a", {"problem": 1}]}, InvalidPayload),
    ],
)
def test_each_error_status_has_an_exception(
    play: Play, status: int, problem: Any, error: type[CoatcheckError]
) -> None:
    with pytest.raises(error, match=r"why|without an explanation") as refused:
        play(Script(answer(status, problem)), retry_for=0).get("7")

    assert type(refused.value) is error


def test_foreign_server_raises(play: Play) -> None:
    page = httpx2.Response(200, text="<html>Welcome to the hotel")
    with pytest.raises(UnexpectedAnswer, match="no Coatcheck server"):
        play(Script(page)).get("7")
    other = answer(200, {"status": "ok"})
    for call in ("get", "wait", "explain", "cancel", "submit"):
        with pytest.raises(UnexpectedAnswer, match="no Coatcheck server"):
            getattr(play(Script(other)), call)("7")
    moved = httpx2.Response(308, headers={"location": "https://coats.example/v1/jobs/7"})
    with pytest.raises(UnexpectedAnswer, match=r"redirects \(308\) to https://coats.example"):
        play(Script(moved)).get("7")


def test_api_key_is_sent_as_bearer_token(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(answer(200))
    play(script).get("7")
    play(script, api_key="ck_1_secret").get("7")
    monkeypatch.setenv("COATCHECK_API_KEY", "ck_2_secret\n")
    play(script).get("7")

    sent = [request.headers.get("authorization") for request in script.requests]
    assert sent == [None, "Bearer ck_1_secret", "Bearer ck_2_secret"]


def test_id_is_escaped_in_the_path(play: Play) -> None:
    script = Script(answer(200))
    play(script).get("../queues/default?x=1")

    assert script.requests[0].url.raw_path == b"/v1/jobs/..%2Fqueues%2Fdefault%3Fx%3D1"


@pytest.mark.parametrize("key", ["", " ", "näh", "two\r\nlines", "x" * 256])
def test_invalid_idempotency_key_is_rejected_before_sending(play: Play, key: str) -> None:
    script = Script(answer(202))
    with pytest.raises(InvalidInput, match="printable"):
        play(script).submit("echo", idempotency_key=key)

    assert script.requests == []


@pytest.mark.parametrize("value", [float("nan"), object(), "\ud800", {"deep": float("inf")}])
def test_input_that_is_not_json_is_rejected_before_sending(play: Play, value: Any) -> None:
    script = Script(answer(202))
    with pytest.raises(InvalidPayload, match="cannot be written as JSON"):
        play(script).submit("echo", value)

    assert script.requests == []
