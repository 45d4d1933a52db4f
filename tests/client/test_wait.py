"""The wait for a job over an unreliable connection."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from coatcheck import JobFailed, NotFound, TimedOut, Unreachable
from tests.client.both import FakeTime
from tests.client.script import JOB, Play, Script, answer

DONE = answer(200, {**JOB, "state": "succeeded", "result": 7, "finished_at": "2030-01-31"})
RUNNING = {**JOB, "state": "running"}


def waits(script: Script) -> list[str | None]:
    return [request.url.params.get("wait") for request in script.requests]


@pytest.fixture
def long_poll(fake: FakeTime) -> Callable[[httpx2.Request], httpx2.Response]:
    """An answer to a job that still runs, given after as long as was asked for."""

    def reply(request: httpx2.Request) -> httpx2.Response:
        fake.now += float(request.url.params.get("wait", 0))
        return answer(200, RUNNING, retry_after="3")

    return reply


def cut_after(fake: FakeTime, seconds: float) -> Callable[[httpx2.Request], httpx2.Response]:
    """A proxy that cuts what takes longer than it likes."""

    def reply(request: httpx2.Request) -> httpx2.Response:
        if float(request.url.params.get("wait", 0)) > seconds:
            fake.now += seconds
            raise httpx2.RemoteProtocolError("peer closed connection")
        return answer(200, RUNNING, retry_after="3")

    return reply


def test_wait_uses_long_polls_without_pauses(
    play: Play, fake: FakeTime, long_poll: Callable[[httpx2.Request], httpx2.Response]
) -> None:
    script = Script(long_poll, long_poll, DONE)

    assert play(script).wait("7")["result"] == 7

    assert waits(script) == ["25.000"] * 3
    assert fake.pauses == []


def test_wait_ends_at_its_timeout(
    play: Play, fake: FakeTime, long_poll: Callable[[httpx2.Request], httpx2.Response]
) -> None:
    script = Script(answer(202), long_poll)

    with pytest.raises(TimedOut, match="still running after 60 s"):
        play(script).run("echo", timeout=60)

    assert waits(script)[1:] == ["25.000", "25.000", "10.000"]
    assert fake.now == 60


def test_default_timeout_is_fifteen_minutes(
    play: Play, fake: FakeTime, long_poll: Callable[[httpx2.Request], httpx2.Response]
) -> None:
    with pytest.raises(TimedOut):
        play(Script(answer(202), long_poll)).submit("echo").result()

    assert fake.now == 15 * 60


def test_early_response_is_followed_by_a_pause(play: Play, fake: FakeTime) -> None:
    script = Script(*[answer(200, RUNNING)] * 10, DONE)

    play(script).wait("7")

    assert len(fake.pauses) == 10
    assert all(pause > 0 for pause in fake.pauses)
    assert fake.pauses[-1] >= 2.5


def test_one_cut_does_not_shorten_polls(play: Play, fake: FakeTime) -> None:
    cut = cut_after(fake, 5)
    script = Script(cut, DONE, cut, DONE, cut, DONE)
    client = play(script)

    for _ in range(3):
        client.wait("7")

    assert waits(script) == ["25.000"] * 6


def test_many_waits_cut_once_do_not_shorten_polls(play: Play) -> None:
    cut: set[str] = set()

    def restart(request: httpx2.Request) -> httpx2.Response:
        """What all who wait for a server see when it restarts."""
        if request.url.path in cut:
            return DONE
        cut.add(request.url.path)
        raise httpx2.ReadError("reset")

    script = Script(restart)
    client = play(script)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(client.wait, "12345678"))

    assert set(waits(script)) == {"25.000"}


@pytest.mark.parametrize("status", [None, 408, 502, 504])
def test_long_polls_become_shorter_than_the_cut(
    play: Play, fake: FakeTime, status: int | None
) -> None:
    def cut(request: httpx2.Request) -> httpx2.Response:
        fake.now += 10
        if status is None:
            raise httpx2.ReadError("reset")
        return httpx2.Response(status)

    script = Script(cut, cut, DONE)
    client = play(script)
    client.wait("7")
    client.wait("8")

    assert waits(script) == ["25.000", "25.000", "8.000", "8.000"]


def test_immediate_cuts_lead_to_plain_polls_with_retry_after(play: Play, fake: FakeTime) -> None:
    cut = cut_after(fake, 1)
    script = Script(cut, cut, cut, cut, DONE)

    play(script).wait("7")

    assert waits(script) == ["25.000", "25.000", None, None, None]
    assert all(3 <= pause <= 3.3 for pause in fake.pauses[2:])


def test_long_polls_return_after_good_responses(play: Play, fake: FakeTime) -> None:
    cut = cut_after(fake, 1)
    script = Script(*[cut] * 2, *[answer(200, RUNNING)] * 20, DONE)

    play(script).wait("7")

    assert waits(script) == ["25.000", "25.000", *[None] * 20, "2.000"]


def test_unreachable_server_is_retried_until_the_timeout(play: Play, fake: FakeTime) -> None:
    away = httpx2.ConnectError("refused")
    script = Script(answer(200, RUNNING), *[away] * 100, DONE)

    assert play(script, retry_for=1).wait("7", timeout=900)["result"] == 7

    assert fake.now > 300


def test_wait_returns_the_last_known_job_if_the_server_disappears(play: Play) -> None:
    script = Script(answer(202), answer(200, RUNNING), httpx2.ConnectError("refused"))

    with pytest.raises(TimedOut, match="still running"):
        play(script).run("echo", timeout=900)


def test_server_that_was_never_reachable_raises(play: Play, fake: FakeTime) -> None:
    with pytest.raises(Unreachable, match="cannot reach the server at"):
        play(Script(httpx2.ConnectError("refused"))).wait("7", timeout=30)

    assert fake.now == 30


def test_wait_with_timeout_zero_reads_once(play: Play, fake: FakeTime) -> None:
    script = Script(answer(200, RUNNING))

    assert play(script).wait("7", timeout=0)["state"] == "running"
    assert waits(script) == [None]


def test_deleted_job_ends_the_wait(play: Play) -> None:
    script = Script(answer(200, RUNNING), answer(404, {"detail": "there is no job 7"}))

    with pytest.raises(NotFound):
        play(script).wait("7")


def test_failure_has_all_details(play: Play) -> None:
    error = {"code": "sold-out", "message": "no seats", "detail": "row 7", "retryable": False}
    failed = {**JOB, "state": "failed", "reason": "error", "error": error, "finished_at": "then"}

    with pytest.raises(JobFailed) as failure:
        play(Script(answer(202), answer(200, failed))).run("echo")

    found = failure.value
    assert (found.error_code, found.message, found.detail) == ("sold-out", "no seats", "row 7")
    assert found.reason == "error"
