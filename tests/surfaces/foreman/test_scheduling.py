"""Which job runs next, and where: one per target, loaded models first, no starvation."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from coatcheck.model.state import State
from tests.surfaces.foreman.conftest import HELLO, Serve
from tests.surfaces.foreman.ollama_shim import Ollama, serving_ollama

pytestmark = pytest.mark.anyio


async def test_one_job_runs_at_a_time(serve: Serve, upstream: Ollama) -> None:  # F15
    """However many callers and workers there are."""
    async with serve(upstream.url) as foreman, foreman.working():
        chats = [foreman.client.chat("tiny", HELLO) for _ in range(6)]
        jobs = [await foreman.submit() for _ in range(6)]
        await asyncio.gather(*chats)
        for job_id in jobs:
            assert (await foreman.ended(job_id))["state"] == "done"
        assert upstream.most_open == 1


async def test_per_target_allows_several_jobs(serve: Serve, upstream: Ollama) -> None:
    async with serve(upstream.url, per_target="2") as foreman:
        await foreman.client.chat("tiny", HELLO)
        upstream.speaking.shut()
        jobs = [await foreman.submit() for _ in range(3)]
        for job_id in jobs[:2]:
            await foreman.until(job_id, lambda job: job.phase == "working")
        assert (await foreman.show(jobs[2]))["state"] == "queued"
        upstream.speaking.open()
        for job_id in jobs:
            assert (await foreman.ended(job_id))["state"] == "done"
        assert upstream.most_open == 2


async def test_loaded_model_runs_first(serve: Serve, upstream: Ollama) -> None:  # F15
    async with serve(upstream.url, works=False) as foreman:
        async with foreman.working():
            await foreman.client.chat("tiny", HELLO)
        jobs = []
        for _ in range(3):
            jobs += [await foreman.submit("other"), await foreman.submit("tiny")]
        async with foreman.working():
            for job_id in jobs:
                await foreman.ended(job_id)
        asked = [body["model"] for body in upstream.generated]
        assert asked == ["tiny", "tiny", "tiny", "tiny", "other", "other", "other"]


async def test_old_job_is_not_starved_by_the_loaded_model(
    serve: Serve, upstream: Ollama
) -> None:  # F15
    """A job that is older by more than the head start runs first, whatever is loaded."""
    async with serve(upstream.url, works=False, head_start="1ms") as foreman:
        async with foreman.working():
            await foreman.client.chat("tiny", HELLO)
        old = await foreman.submit("other")
        created = (await foreman.engine.get(old)).created_at
        while foreman.engine.clock.now() <= created + 2:
            await foreman.show(old)
        young = await foreman.submit("tiny")
        async with foreman.working():
            await foreman.ended(young)
            assert (await foreman.show(old))["state"] == "done"
        assert [body["model"] for body in upstream.generated] == ["tiny", "other", "tiny"]


async def test_several_targets_share_the_work(serve: Serve) -> None:
    async with contextlib.AsyncExitStack() as stack:
        one, two = [await stack.enter_async_context(serving_ollama()) for _ in range(2)]
        foreman = await stack.enter_async_context(serve(one.url, two.url))
        one.speaking.shut()
        two.speaking.shut()
        jobs = [await foreman.submit() for _ in range(3)]
        await asyncio.gather(one.speaking.reached.wait(), two.speaking.reached.wait())
        assert (one.open, two.open) == (1, 1)
        assert (await foreman.show(jobs[2]))["state"] == "queued"
        one.speaking.open()
        two.speaking.open()
        for job_id in jobs:
            assert (await foreman.ended(job_id))["state"] == "done"
        assert (one.most_open, two.most_open) == (1, 1)


async def test_job_runs_on_a_target_with_its_model(serve: Serve) -> None:
    async with contextlib.AsyncExitStack() as stack:
        one = await stack.enter_async_context(serving_ollama("tiny:latest"))
        two = await stack.enter_async_context(serving_ollama("tiny:latest", "big:latest"))
        foreman = await stack.enter_async_context(serve(one.url, two.url))
        client = foreman.client
        assert (await client.chat("big", HELLO)).done
        assert [body["model"] for body in two.generated] == ["big"]
        assert sorted(each.model or "" for each in (await client.list()).models) == [
            "big:latest",
            "tiny:latest",
        ]
        assert [each.model for each in (await client.ps()).models] == ["big:latest"]
        assert (await client.show("big")).capabilities
        # If its target is busy, the job waits, and another job uses the free target.
        two.speaking.shut()
        first, second = await foreman.submit("big"), await foreman.submit("big")
        await two.speaking.reached.wait()
        await foreman.until(second, lambda job: job.fence > 0 and job.state is State.QUEUED)
        assert (await client.chat("tiny", HELLO)).done
        assert len(one.generated) == 1
        two.speaking.open()
        for job_id in (first, second):
            shown = await foreman.ended(job_id)
            assert (shown["state"], shown["attempt"]) == ("done", 1)


async def test_job_waits_for_the_unreachable_target_with_its_model(serve: Serve) -> None:
    async with contextlib.AsyncExitStack() as stack:
        one = await stack.enter_async_context(serving_ollama("tiny:latest"))
        async with serving_ollama("big:latest") as two:
            port = two.port
        foreman = await stack.enter_async_context(
            serve(one.url, f"http://127.0.0.1:{port}", poll_interval="100ms")
        )
        waiting = await foreman.submit("big")
        assert (await foreman.client.chat("tiny", HELLO)).done
        assert (await foreman.http.get("/healthz")).json() == {"status": "ok", "degraded": True}
        await foreman.until(waiting, lambda job: job.fence > 1)
        assert (await foreman.show(waiting))["state"] == "queued"
        back = await stack.enter_async_context(serving_ollama("big:latest", port=port))
        assert (await foreman.ended(waiting))["state"] == "done"
        assert len(back.generated) == 1


async def test_state_is_loading_while_a_model_loads(serve: Serve, upstream: Ollama) -> None:  # F04
    async with serve(upstream.url) as foreman:
        upstream.loading.shut()
        job_id = await foreman.submit()
        assert (await foreman.show(job_id))["state"] == "queued"
        await upstream.loading.reached.wait()
        await foreman.until(job_id, lambda job: job.phase is not None)
        assert (await foreman.show(job_id))["state"] == "loading"
        upstream.speaking.shut()
        upstream.loading.open()
        await foreman.until(job_id, lambda job: job.phase == "working")
        assert (await foreman.show(job_id))["state"] == "working"
        upstream.speaking.open()
        assert (await foreman.ended(job_id))["state"] == "done"
        paths = [path for path, _ in upstream.asked]
        assert paths == ["/api/generate", "/api/chat"]  # the model is loaded by a separate call
        await foreman.client.chat("tiny", HELLO)
        assert len(upstream.asked) == 3  # and not again
