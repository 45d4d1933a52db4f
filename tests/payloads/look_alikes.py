"""Text of users that looks like our envelopes, in every place where users choose the text."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

from coatcheck import App, Context, Fail
from coatcheck.blobs.open import blobs_for
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.model.job import Job
from coatcheck.settings import Settings
from coatcheck.store.open import store_for
from coatcheck.worker.worker import Worker

from .resealed import BOTH, reseal

_NOTHING = base64.b64encode(b"\0" * 40).decode()


def look_alike(key: str) -> str:
    """Return a text with the form of an envelope under a key."""
    return f"sealed:v1:{key}:{_NOTHING}"


def _declare() -> App:
    app = App()

    def broken(text: str) -> None:
        raise Fail("sour", text)

    @app.job(retries=0)
    async def mimic(ctx: Context, text: str) -> None:
        await ctx.phase(text)
        await ctx.progress(1, 2, text)
        await ctx.log(text, field=text)
        await ctx.emit({"output": text})
        await ctx.step(str, text)
        await ctx.artifact("note.txt", text.encode())
        try:
            await ctx.step(broken, text)
        except Fail:
            raise Fail(text, text) from None

    return app


async def mimicked(settings: Settings, scratch: Path) -> list[str]:
    """Run jobs that write look-alikes wherever they can; return the jobs' ids."""
    blobs, store = blobs_for(settings), store_for(settings)
    await store.open()
    engine = Engine(store, _declare().kinds, blobs=blobs)
    worker = Worker(engine, Settings(concurrency=4, drain_s=0), scratch=scratch)
    stop, ready = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(worker.run(stop, ready.set))
    await ready.wait()
    ids = []
    for key in ("a", "b", "unknown", "not an id"):
        labels = {"looks": "sealed:v1:a"}
        job = await engine.submit(Submission("mimic", f'"{look_alike(key)}"', labels=labels))
        ended = await engine.wait(job.id, 60)
        assert ended.error is not None
        assert ended.error.code == look_alike(key), ended.error
        ids.append(job.id)
    stop.set()
    await running
    await store.close()
    blobs.close()
    return ids


async def read_back(settings: Settings, ids: list[str]) -> list[Job]:
    """Read all that was kept of jobs."""
    blobs, store = blobs_for(settings), store_for(settings)
    await store.open()
    engine = Engine(store, _declare().kinds, blobs=blobs)
    found = []
    for job_id in ids:
        found.append(await engine.get(job_id))
        await engine.events(job_id)
        await engine.steps(job_id)
        await engine.store.jobs.get_input(found[-1].tenant, job_id)
    await store.close()
    blobs.close()
    return found


async def reseal_all(settings: Settings) -> tuple[int, int]:
    """Reseal with both keys; return how many texts and messages could not be decrypted."""
    blobs, store = blobs_for(settings), store_for(settings)
    await store.open()
    done = await reseal(settings, BOTH, Engine(store, _declare().kinds, blobs=blobs))
    await store.close()
    blobs.close()
    return done.left, done.unreadable_messages
