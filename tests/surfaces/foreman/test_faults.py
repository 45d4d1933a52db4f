"""Targets that are unreachable, silent, broken, or not Ollama."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import httpx
import ollama
import pytest

from coatcheck.model.state import Reason, State
from coatcheck.store.base import Topic
from tests.surfaces.foreman.conftest import HELLO, Foreman, Serve
from tests.surfaces.foreman.faulty import (
    TINY,
    Answer,
    Cut,
    Faulty,
    Stall,
    answering,
    faulty,
    streaming,
)
from tests.surfaces.foreman.ollama_shim import Ollama
from tests.webhooks.receiver import receiving

pytestmark = pytest.mark.anyio

GOOD = answering(
    200,
    json.dumps(
        {"model": "tiny", "message": {"role": "assistant", "content": "hi"}, "done": True}
    ).encode(),
)
WORD = {"model": "tiny", "message": {"role": "assistant", "content": "hi"}, "done": False}
FAILS = answering(500, b'{"error":"llama runner process has terminated"}')


@contextlib.asynccontextmanager
async def before(
    serve: Serve, answer: Answer, probes: bytes = TINY, **set_to: str
) -> AsyncIterator[tuple[Faulty, Foreman]]:
    """Serve the queue in front of a faulty upstream."""
    async with faulty(answer, probes) as upstream, serve(upstream.url, **set_to) as foreman:
        yield upstream, foreman


# --- unreachable


async def test_job_waits_for_an_unreachable_target(serve: Serve) -> None:  # F05, F17
    """No attempt is used, and the job runs when the target is back."""
    async with faulty(lambda _: GOOD) as upstream:
        await upstream.stop()
        async with serve(upstream.url, poll_interval="100ms", max_attempts="1") as foreman:
            assert (await foreman.http.get("/healthz")).json() == {"status": "ok", "degraded": True}
            job_id = await foreman.submit()
            asking = asyncio.create_task(foreman.client.chat("tiny", HELLO))
            job = await foreman.until(job_id, lambda job: job.fence > 3)
            shown = await foreman.show(job_id)
            assert (shown["state"], job.attempt <= 1) == ("queued", True)
            assert "cannot be reached" in (await foreman.show(job_id))["error"]
            assert not asking.done()
            await upstream.start()
            shown = await foreman.ended(job_id)
            assert (shown["state"], shown["attempt"], shown["error"]) == ("done", 1, None)
            assert (await asking).message.content == "hi"
            told = (await foreman.http.get("/healthz")).json()
            assert told == {"status": "ok", "degraded": False}


async def test_waiting_for_a_target_sends_no_webhooks(serve: Serve) -> None:
    async with faulty(lambda _: GOOD) as upstream, receiving() as receiver:
        await upstream.stop()
        async with serve(upstream.url, poll_interval="50ms") as foreman:
            job_id = await foreman.submit(state_webhook_url=receiver.url)
            await foreman.until(job_id, lambda job: job.fence > 3)
            assert receiver.calls == []
            await upstream.start()
            await foreman.ended(job_id)
            await foreman.engine.dispatcher.deliver_due()
        states = {json.loads(call.body)["state"] for call in receiver.calls}
        assert states == {"loading", "working", "done"}


async def test_direct_calls_report_an_unreachable_target(serve: Serve) -> None:
    async with faulty(lambda _: GOOD) as upstream:
        await upstream.stop()
        async with serve(upstream.url) as foreman:
            for call in (foreman.client.list(), foreman.client.embed("tiny", "a")):
                with pytest.raises(ollama.ResponseError, match="cannot be reached") as raised:
                    await call
                assert raised.value.status_code == 503


async def test_target_that_is_not_ollama_is_unreachable(serve: Serve) -> None:
    async with before(serve, lambda _: GOOD, probes=b"<html>", poll_interval="50ms") as both:
        upstream, foreman = both
        job_id = await foreman.submit()
        await foreman.until(job_id, lambda job: job.fence > 2)
        assert "not JSON" in (await foreman.show(job_id))["error"]
        assert (await foreman.http.get("/healthz")).json()["degraded"] is True
        assert upstream.calls == []


async def test_silent_target_breaks_the_call(serve: Serve) -> None:
    """The call is retried when the target is back."""
    sleeps: list[bytes | Stall] = [Stall(), GOOD]
    async with before(serve, lambda _: sleeps.pop(0), poll_interval="100ms") as both:
        upstream, foreman = both
        job_id = await foreman.submit()
        await upstream.called.wait()
        await foreman.until(job_id, lambda job: job.phase == "working")
        upstream.probes = b"zzz"
        job = await foreman.until(job_id, lambda job: job.state is State.QUEUED)
        # At this moment; a further attempt finds the target unreachable.
        assert job.error is not None
        assert "stopped responding" in job.error.message
        upstream.probes = json.dumps({"models": [{"name": "tiny:latest"}]}).encode()
        shown = await foreman.ended(job_id)
        assert (shown["state"], shown["attempt"]) == ("done", 1)
        await upstream.hung_up.wait()


# --- broken


async def test_poison_job_fails_after_its_attempts(serve: Serve) -> None:  # F06
    async with before(serve, lambda _: FAILS, max_attempts="2") as both:
        upstream, foreman = both
        shown = await foreman.ended(await foreman.submit())
        assert (shown["state"], shown["attempt"]) == ("failed", 2)
        assert shown["error"] == "llama runner process has terminated"
        assert len(upstream.calls) == 2
        with pytest.raises(ollama.ResponseError, match="has terminated") as raised:
            await foreman.client.chat("tiny", HELLO)
        assert raised.value.status_code == 500


async def test_failed_call_is_retried(serve: Serve) -> None:
    for first in (FAILS, Cut(b""), Cut(b"HTTP/1.1 200 X\r\n"), Cut(b"garbage\r\n\r\n")):
        answers: list[bytes | Cut] = [first, GOOD]
        async with before(serve, lambda _, answers=answers: answers.pop(0)) as both:  # type: ignore[misc]
            _, foreman = both
            shown = await foreman.ended(await foreman.submit())
            assert (shown["state"], shown["attempt"]) == ("done", 2)
            assert shown["result"]["message"]["content"] == "hi"


async def test_broken_stream_is_visible_and_not_retried(serve: Serve) -> None:
    """There is no retry after the first byte."""
    async with before(serve, lambda _: Stall(streaming(WORD))) as both:
        upstream, foreman = both
        stream = await foreman.client.chat("tiny", HELLO, stream=True)
        assert (await anext(stream)).message.content == "hi"
        await upstream.stop()
        with pytest.raises(httpx.RemoteProtocolError, match="peer closed"):
            await anext(stream)
        [job] = (await foreman.http.get("/v1/jobs")).json()["jobs"]
        shown = await foreman.ended(job["id"])
        assert (shown["state"], shown["attempt"], len(upstream.calls)) == ("failed", 1, 1)
        await upstream.start()


async def test_error_in_a_stream_fails_the_job(serve: Serve) -> None:
    lines = streaming(WORD, {"error": "out of memory"}) + b"0\r\n\r\n"
    async with faulty(lambda _: lines) as upstream, serve(upstream.url) as foreman:
        with pytest.raises(ollama.ResponseError, match="out of memory"):
            async for _ in await foreman.client.chat("tiny", HELLO, stream=True):
                continue
        [job] = (await foreman.http.get("/v1/jobs")).json()["jobs"]
        shown = await foreman.ended(job["id"])
        assert (shown["state"], shown["error"]) == ("failed", "out of memory")


@pytest.mark.parametrize("media_type", ["text/html", "application/json"])
async def test_garbage_response_is_retried_then_fails(serve: Serve, media_type: str) -> None:
    answers = [answering(200, b"<html>", media_type)] * 2
    async with before(serve, lambda _: (answers or [GOOD]).pop(0), max_attempts="2") as both:
        upstream, foreman = both
        shown = await foreman.ended(await foreman.submit())
        assert (shown["state"], shown["attempt"], shown["result"]) == ("failed", 2, None)
        assert "the response is not" in shown["error"]
        assert len(upstream.calls) == 2
        assert (await foreman.ended(await foreman.submit()))["state"] == "done"


async def test_job_timeout_limits_an_attempt(serve: Serve) -> None:
    async with before(serve, lambda _: Stall(), job_timeout="200ms", max_attempts="1") as both:
        upstream, foreman = both
        shown = await foreman.ended(await foreman.submit())
        assert shown["state"] == "failed"
        assert "took longer than 0.2 s" in shown["error"]
        await upstream.hung_up.wait()
        with pytest.raises(ollama.ResponseError) as raised:
            await foreman.client.chat("tiny", HELLO)
        assert raised.value.status_code == 504


# --- disconnects


@pytest.mark.parametrize("on_hangup", ["continue", "cancel"])
async def test_disconnect_during_a_stream(serve: Serve, upstream: Ollama, on_hangup: str) -> None:
    """The job continues or not; the connection to the target never stays open."""
    async with serve(upstream.url, on_hangup=on_hangup) as foreman:
        upstream.speaking.shut()
        body = {"model": "tiny", "messages": HELLO}
        async with foreman.http.stream("POST", "/api/chat", json=body) as answer:
            job_id = answer.headers["coatcheck-job"]
            async for _ in answer.aiter_lines():
                break
        if on_hangup == "cancel":
            job = await foreman.engine.wait(job_id, 60)
            assert job.state is not State.SUCCEEDED
            await upstream.closed.wait()
            upstream.speaking.open()
        else:
            upstream.speaking.open()
            shown = await foreman.ended(job_id)
            assert (shown["state"], shown["result"]["eval_count"]) == ("done", 8)
            await upstream.closed.wait()
        assert upstream.open == 0
        assert (await foreman.client.chat("tiny", HELLO)).done  # the slot is free


@pytest.mark.parametrize("on_hangup", ["continue", "cancel"])
async def test_disconnect_while_queued(serve: Serve, upstream: Ollama, on_hangup: str) -> None:
    async with serve(upstream.url, works=False, on_hangup=on_hangup) as foreman:
        body = {"model": "tiny", "messages": HELLO}
        handed_in = foreman.engine.store.subscribe(Topic.WORK)
        calling = asyncio.create_task(foreman.http.post("/api/chat", json=body))
        while not (jobs := (await foreman.http.get("/v1/jobs")).json()["jobs"]):
            assert await handed_in.wait(60)
        handed_in.close()
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        [job] = jobs
        if on_hangup == "cancel":
            ended = await foreman.engine.wait(job["id"], 60)
            assert ended.reason is Reason.CANCELLED
        async with foreman.working():
            expected = "done" if on_hangup == "continue" else "failed"
            assert (await foreman.ended(job["id"]))["state"] == expected
        assert len(upstream.generated) == (1 if on_hangup == "continue" else 0)
