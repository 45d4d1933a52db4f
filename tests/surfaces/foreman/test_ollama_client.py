"""Ollama's own client cannot tell foreman from Ollama."""

from __future__ import annotations

import asyncio

import ollama
import pytest

from tests.surfaces.foreman.conftest import HELLO, Foreman, Serve
from tests.surfaces.foreman.ollama_shim import VERSION, Ollama

pytestmark = pytest.mark.anyio


async def test_chat_complete_and_streamed(serve: Serve, upstream: Ollama) -> None:  # F11
    async with serve(upstream.url) as foreman:
        direct = ollama.AsyncClient(upstream.url)
        for client in (direct, foreman.client):
            whole = await client.chat("tiny", HELLO)
            stream = await client.chat("tiny", HELLO, stream=True)
            chunks = [chunk async for chunk in stream]
            assert [chunk.done for chunk in chunks] == [*[False] * 8, True]
            text = "".join(chunk.message.content or "" for chunk in chunks)
            assert (whole.done, whole.message.content) == (True, text)
            assert (whole.eval_count, chunks[-1].done_reason) == (8, "stop")
        await direct.close()  # type: ignore[no-untyped-call]


async def test_generate_complete_and_streamed(serve: Serve, upstream: Ollama) -> None:
    async with serve(upstream.url) as foreman:
        client = foreman.client
        whole = await client.generate("tiny", "hello")
        chunks = [chunk async for chunk in await client.generate("tiny", "hello", stream=True)]
        assert whole.response == "".join(chunk.response or "" for chunk in chunks)
        loaded = await client.generate("other")
        assert loaded.done_reason == "load"


async def test_models_are_listed(serve: Serve, upstream: Ollama) -> None:
    async with serve(upstream.url) as foreman:
        client = foreman.client
        assert [each.model for each in (await client.list()).models] == upstream.models
        assert (await client.ps()).models == []
        await client.chat("tiny", HELLO)
        assert [each.model for each in (await client.ps()).models] == ["tiny:latest"]
        assert (await client.show("tiny")).capabilities == ["completion"]
        assert (await foreman.http.get("/api/version")).json() == {"version": VERSION}
        assert (await foreman.http.get("/")).text == "Ollama is running"
        assert (await foreman.http.head("/")).status_code == 200


async def test_embeddings_bypass_the_queue(serve: Serve, upstream: Ollama) -> None:  # F16
    async with serve(upstream.url, works=False) as foreman:
        client = foreman.client
        assert (await client.embed("tiny", ["a", "bcd"])).embeddings == [[1.0, 1.0], [3.0, 1.0]]
        assert (await client.embeddings("tiny", "abcd")).embedding == [4.0, 1.0]
        with pytest.raises(ollama.ResponseError, match="model 'none' not found") as raised:
            await client.embed("none", "a")
        assert raised.value.status_code == 404
        assert (await foreman.http.get("/v1/jobs")).json()["jobs"] == []


@pytest.mark.parametrize("stream", [False, True])
async def test_errors_have_ollamas_format(serve: Serve, upstream: Ollama, *, stream: bool) -> None:
    async with serve(upstream.url) as foreman:
        direct = ollama.AsyncClient(upstream.url)
        raised = []
        for client in (direct, foreman.client):
            with pytest.raises(ollama.ResponseError) as error:
                answer = await client.chat("none", HELLO, stream=stream)  # type: ignore[call-overload]
                if stream:
                    _ = [chunk async for chunk in answer]
            raised.append((error.value.status_code, error.value.error))
        assert raised == [(404, "model 'none' not found")] * 2
        with pytest.raises(ollama.ResponseError, match="not found"):
            await foreman.client.show("none")
        await direct.close()  # type: ignore[no-untyped-call]


async def test_every_queued_call_is_a_job(serve: Serve, upstream: Ollama) -> None:  # F07, F12
    async with serve(upstream.url) as foreman:
        body = {"model": "tiny", "messages": HELLO, "state_webhook_url": "http://10.0.0.1/hook"}
        answer = await foreman.http.post("/api/chat", json=body)
        shown = await foreman.ended(answer.headers["coatcheck-job"])
        lines = answer.text.splitlines()
        assert answer.headers["content-type"] == "application/x-ndjson"
        assert (shown["state"], shown["model"], len(lines)) == ("done", "tiny", 9)
        assert shown["result"]["message"]["content"] == shown["artifacts"][0]["inline"]
        assert shown["result"]["eval_count"] == 8
        [listed] = (await foreman.http.get("/v1/jobs?kind=ollama")).json()["jobs"]
        assert (listed["surface"], listed["queue"]) == ("foreman", "foreman.tiny:latest")
        assert "state_webhook_url" not in upstream.generated[0]


async def test_keep_alive_is_sent(serve: Serve, upstream: Ollama) -> None:  # F14
    async with serve(upstream.url, keep_alive="10m") as foreman:
        await foreman.client.chat("tiny", HELLO)
        await foreman.client.chat("tiny", HELLO, keep_alive=5)
        await foreman.client.chat("tiny", HELLO, keep_alive="0")
        assert [each["keep_alive"] for each in upstream.generated] == ["10m", 5, "0"]


async def test_targets_get_the_operators_token_only(serve: Serve, upstream: Ollama) -> None:  # F14
    async with serve(upstream.url, ollama_token="sesame") as foreman:
        mine = {"Authorization": "Bearer mine", "Cookie": "me=1"}
        body = {"model": "tiny", "messages": HELLO, "stream": False}
        answer = await foreman.http.post("/api/chat", json=body, headers=mine)
        assert answer.status_code == 200
        for seen in upstream.headers:
            assert seen["authorization"] == "Bearer sesame"
            assert "cookie" not in seen


async def test_content_type_is_ignored(serve: Serve, upstream: Ollama) -> None:
    async with serve(upstream.url) as foreman:
        answer = await foreman.http.post(
            "/api/generate",
            content=b'{"model":"tiny","prompt":"hello","stream":false}',
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        )
        assert (answer.status_code, answer.json()["done"]) == (200, True)


async def test_stream_starts_when_the_job_is_working(serve: Serve, upstream: Ollama) -> None:  # F11
    async with serve(upstream.url) as foreman:
        upstream.loading.shut()
        upstream.speaking.shut()
        asking = asyncio.create_task(first_words(foreman))
        await upstream.loading.reached.wait()
        [listed] = (await foreman.http.get("/v1/jobs")).json()["jobs"]
        job = await foreman.until(listed["id"], lambda job: job.phase is not None)
        assert (await foreman.show(job.id))["state"] == "loading"
        assert not asking.done()
        upstream.loading.open()
        words = await asking
        assert words, "they come before the answer is complete"
        await foreman.until(job.id, lambda job: job.phase == "working")
        assert (await foreman.show(job.id))["state"] == "working"
        upstream.speaking.open()
        assert (await foreman.ended(job.id))["state"] == "done"


async def first_words(foreman: Foreman) -> str:
    stream = await foreman.client.chat("tiny", HELLO, stream=True)
    async for chunk in stream:
        return chunk.message.content or ""
    return ""


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 400), (b"[]", 400), (b'{"model":7}', 400), (b'{"messages":[]}', 400)],
)
async def test_bad_input_changes_nothing(
    serve: Serve, upstream: Ollama, body: bytes, status: int
) -> None:
    async with serve(upstream.url) as foreman:
        for path in ("/api/chat", "/api/generate", "/jobs", "/api/embed"):
            answer = await foreman.http.post(path, content=body)
            assert answer.status_code == status
            assert list(answer.json()) == ["error"]
        answer = await foreman.http.post("/v1/chat/completions", content=body)
        assert answer.status_code == status
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
        assert (await foreman.http.get("/v1/jobs")).json()["jobs"] == []
        assert upstream.asked == []
