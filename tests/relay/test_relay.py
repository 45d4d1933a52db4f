"""Relayed calls to upstreams that behave in various ways."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from coatcheck.model.state import State

from .conftest import Serve
from .relay_surface import RelaySurface
from .upstreams import Got, in_turn, says, service

pytestmark = pytest.mark.anyio


async def test_fast_response_passes_through(serve: Serve) -> None:
    script = says(
        "418 I'm a teapot", b"short\x00\xff", "X-One: 1", "Set-Cookie: a=1", "Set-Cookie: b=2"
    )
    async with service(script) as up, serve(RelaySurface(lambda: up.url)) as running:
        answer = await running.http.post("/up/a%2Fb?x=%20&y", content=b"body")
        assert (answer.status_code, answer.content) == (418, b"short\x00\xff")
        assert answer.headers["x-one"] == "1"
        assert answer.headers.get_list("set-cookie") == ["a=1", "b=2"]
        job_id = answer.headers["coatcheck-job"]
        [got] = up.got
        assert (got.method, got.path, got.body) == ("POST", "/up/a%2Fb?x=%20&y", b"body")
        assert got.header("host") == up.url.removeprefix("http://")
        assert got.header("idempotency-key") == job_id
        assert got.header("traceparent") is not None

        later = await running.http.get(f"/v1/jobs/{job_id}/result?wait=30")
        assert (later.status_code, later.content) == (418, b"short\x00\xff")
        assert later.headers.get_list("set-cookie") == ["a=1", "b=2"]


async def test_chunks_are_streamed_as_they_arrive(serve: Serve) -> None:
    go_on = asyncio.Event()

    async def script(_got: Got, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await writer.drain()
        await go_on.wait()
        writer.write(b"3\r\ntwo\r\n0\r\n\r\n")

    async with (
        service(script) as up,
        serve(RelaySurface(lambda: up.url)) as running,
        running.http.stream("GET", "/up/stream") as answer,
    ):
        chunks = answer.aiter_bytes()
        assert await anext(chunks) == b"one"  # the upstream has sent no more yet
        go_on.set()
        assert await anext(chunks) == b"two"
        with pytest.raises(StopAsyncIteration):
            await anext(chunks)


async def test_slow_response_becomes_a_job(serve: Serve) -> None:
    go_on = asyncio.Event()

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        await go_on.wait()
        await says(body=b"late")(got, writer)

    surface = RelaySurface(lambda: up.url, wait_s=0.05)
    async with service(script) as up, serve(surface) as running:
        answer = await running.http.post("/up/slow")
        assert answer.status_code == 202
        go_on.set()
        later = await running.http.get(f"/v1/jobs/{answer.json()['job']}/result?wait=30")
        assert (later.status_code, later.content) == (200, b"late")


async def test_prefer_header_is_applied(serve: Serve) -> None:
    surface = RelaySurface(lambda: up.url)
    async with service(says()) as up, serve(surface, works=False) as running:
        prefer = {"Prefer": "respond-async, return=minimal"}
        answer = await running.http.post("/up/x", headers=prefer)
        assert answer.status_code == 202
        assert answer.headers["preference-applied"] == "respond-async"
        async with running.work():
            await running.engine.wait(answer.json()["job"], 30)
        assert up.got[0].header("prefer") == "return=minimal"
        # No worker runs, so the wait runs out.
        answer = await running.http.post("/up/x", headers={"Prefer": "wait=1"})
        assert (answer.status_code, answer.headers["preference-applied"]) == (202, "wait=1")


async def test_large_bodies_are_relayed_in_both_directions(serve: Serve) -> None:
    large = bytes(range(256)) * 8192

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        await says(body=got.body)(got, writer)

    async with service(script) as up, serve(RelaySurface(lambda: up.url)) as running:
        answer = await running.http.put("/up/large", content=large)
        assert answer.content == large
        assert up.got[0].header("content-length") == str(len(large))
        job_id = answer.headers["coatcheck-job"]
        later = await running.http.get(f"/v1/jobs/{job_id}/result?wait=30")
        assert later.content == large


async def test_unreachable_upstream_requeues_without_using_an_attempt(serve: Serve) -> None:
    async with service(says()) as gone:
        url = gone.url
    urls = iter([url])

    def upstream() -> str:
        return next(urls, up.url)

    async with service(says()) as up, serve(RelaySurface(upstream)) as running:
        answer = await running.http.post("/up/x")
        assert (answer.status_code, answer.content) == (200, b"hello")
        job = await running.engine.wait(answer.headers["coatcheck-job"], 30)
        assert (job.state, job.attempt, job.fence) == (State.SUCCEEDED, 1, 2)


async def test_retry_status_is_retried(serve: Serve) -> None:
    script = in_turn(says("503 Busy", b"no", "Retry-After: 0"), says(body=b"yes"))
    surface = RelaySurface(lambda: up.url, retry_statuses=frozenset({503}))
    async with service(script) as up, serve(surface) as running:
        answer = await running.http.post("/up/x")
        assert (answer.status_code, answer.content) == (200, b"yes")
        keys = [got.header("idempotency-key") for got in up.got]
        assert len(keys) == 2
        assert keys[0] == keys[1]


async def test_last_response_is_the_result(serve: Serve) -> None:
    script = says("503 Busy", b"no", "Retry-After: 0")
    surface = RelaySurface(lambda: up.url, retries=1, retry_statuses=frozenset({503}))
    async with service(script) as up, serve(surface) as running:
        answer = await running.http.post("/up/x")
        assert (answer.status_code, answer.content) == (503, b"no")
        assert len(up.got) == 2


async def cut(_got: Got, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbeginning")
    await writer.drain()
    writer.close()


async def hang_up(_got: Got, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def test_broken_stream_is_visible_to_the_caller(serve: Serve) -> None:
    surface = RelaySurface(lambda: up.url, repeatable=True)
    async with service(cut) as up, serve(surface) as running:
        async with running.http.stream("GET", "/up/x") as answer:
            job_id = answer.headers["coatcheck-job"]
            with pytest.raises(httpx2.RemoteProtocolError):
                await answer.aread()
        job = await running.engine.wait(job_id, 30)
        assert (job.state, job.error and job.error.code) == (State.FAILED, "broken-off")
        assert len(up.got) == 1  # no retry after the first byte


async def test_broken_call_is_not_repeated_by_default(serve: Serve) -> None:
    async with service(hang_up) as up, serve(RelaySurface(lambda: up.url)) as running:
        answer = await running.http.post("/up/x")
        assert (answer.status_code, answer.json()["type"]) == (502, "urn:coatcheck:broken-off")
        assert len(up.got) == 1


async def test_broken_repeatable_call_is_repeated(serve: Serve) -> None:
    surface = RelaySurface(lambda: up.url, repeatable=True)
    async with service(in_turn(hang_up, says())) as up, serve(surface) as running:
        answer = await running.http.post("/up/x")
        assert (answer.status_code, answer.content) == (200, b"hello")
        assert len(up.got) == 2


async def test_response_is_only_for_its_owner(serve: Serve) -> None:
    script = says(body=b"for you only" * 4000)
    async with service(script) as up, serve(RelaySurface(lambda: up.url)) as running:
        mine = {"Authorization": "Bearer mine"}
        answer = await running.http.get("/up/x", headers=mine)
        assert up.got[0].header("authorization") == "Bearer mine"
        job_id = answer.headers["coatcheck-job"]
        paths = (f"/v1/jobs/{job_id}/result?wait=30", f"/v1/jobs/{job_id}/artifacts/body")
        for path in paths:
            for other in ({}, {"Authorization": "Bearer other"}, {"Cookie": "mine"}):
                assert (await running.http.get(path, headers=other)).status_code == 404
            assert (await running.http.get(path, headers=mine)).content == answer.content
        # The view that anybody may see does not contain the response.
        shown = (await running.http.get(f"/v1/jobs/{job_id}")).text
        assert "for you" not in shown
        assert "Bearer" not in shown


async def test_idempotency_key_makes_one_call(serve: Serve) -> None:
    async with service(says()) as up, serve(RelaySurface(lambda: up.url)) as running:
        key = {"Idempotency-Key": "order-7"}
        first = await running.http.post("/up/x", content=b"a", headers=key)
        again = await running.http.post("/up/x", content=b"a", headers=key)
        assert first.headers["coatcheck-job"] == again.headers["coatcheck-job"]
        assert again.content == b"hello"
        assert [got.header("idempotency-key") for got in up.got] == ["order-7"]
        other = await running.http.post("/up/x", content=b"b", headers=key)
        assert other.status_code == 422


async def test_disconnect_continues_or_cancels_the_job(serve: Serve) -> None:
    ended: dict[str, State] = {}
    for on_hangup in ("continue", "cancel"):
        go_on = asyncio.Event()

        async def script(
            _got: Got, writer: asyncio.StreamWriter, go_on: asyncio.Event = go_on
        ) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
            await writer.drain()
            await go_on.wait()
            writer.write(b"3\r\ntwo\r\n0\r\n\r\n")

        async with service(script) as up:
            surface = RelaySurface(lambda url=up.url: url, on_hangup=on_hangup)  # type: ignore[misc]
            async with serve(surface) as running:
                async with running.http.stream("GET", "/up/x") as answer:
                    assert await anext(answer.aiter_bytes()) == b"one"
                    job_id = answer.headers["coatcheck-job"]
                if on_hangup == "continue":
                    go_on.set()
                job = await running.engine.wait(job_id, 30)
                ended[on_hangup] = job.state
                go_on.set()
                await asyncio.wait_for(up.ended.wait(), 30)  # no connection is left open
    assert ended["continue"] is State.SUCCEEDED
    assert ended["cancel"] in (State.CANCELLED, State.FAILED)
