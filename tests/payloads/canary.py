"""A job that says a secret word wherever a job can say anything, and a search for that word."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from coatcheck import App, Context, Fail, Upload
from coatcheck.clock import SystemClock
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.engine.webhooks.endpoints import WebhookSpec
from coatcheck.model.job import Job
from coatcheck.settings import Settings
from coatcheck.worker.worker import Worker

WORD = "canary-7f3a9c21"
LARGE = f"{WORD} " * 10_000
SMALL_FILE = f"artifact {WORD}".encode()
# As it is where it was written, and as a small file is kept in its row.
SIGNS = (WORD.encode(), b64encode(SMALL_FILE))


class Song(BaseModel):
    word: str
    file: Upload


def declare(**options: Any) -> App:
    """Return an app with one kind that sings, one that fails and one that is about nothing."""
    app = App()

    def sing(word: str) -> str:
        return f"step {word}"

    @app.job(**options)
    async def canary(ctx: Context, song: Song) -> str:
        path: Path = await ctx.file(song.file)
        assert WORD in await asyncio.to_thread(path.read_text)
        await ctx.progress(1, 2, f"progress {WORD}")
        await ctx.log(f"log {WORD}", field=WORD)
        await ctx.emit({"output": WORD})
        await ctx.step(sing, WORD)
        await ctx.artifact("long-song.txt", LARGE.encode())
        await ctx.artifact("song.txt", SMALL_FILE)
        sent = await ctx.wait_for("go")
        return f"result {sent} {LARGE}"

    @app.job(retries=0, **options)
    async def failing(ctx: Context, song: str) -> None:
        raise Fail("sour", f"error {song}")

    @app.job
    async def other(ctx: Context, text: str) -> str:
        return text

    return app


class Ahead:
    """A clock that can be set ahead."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self.ahead_ms = 0

    def now(self) -> int:
        return self._clock.now() + self.ahead_ms

    def monotonic(self) -> float:
        return self._clock.monotonic()


# An address is in clear also where the rest is sealed, so only some canaries have one.
HOOK = WebhookSpec(f"https://93.184.216.34/{WORD}", ["job.running", "job.succeeded"])


async def sing(
    engine: Engine, scratch: Path, others: int = 40, webhook: WebhookSpec | None = None
) -> list[Job]:
    """Run the canaries among other jobs, and return them as they ended."""
    taken = await engine.uploads.receive(f"upload {WORD}".encode(), "song.txt")
    named = f'{{"upload":"{taken.upload.id}"}}'
    worker = Worker(engine, Settings(concurrency=4, drain_s=0), scratch=scratch)
    stop, ready = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(worker.run(stop, ready.set))
    await ready.wait()
    canaries = []
    for number in range(others):
        await engine.submit(Submission("other", f'"{"x" * (37 * number)}"'))
        if number % 10 == 5:
            canaries.append(await engine.submit(Submission("failing", f'"{WORD} {number}"')))
    large = await engine.submit(Submission("failing", f'"{LARGE}"'))
    song = await engine.submit(
        Submission("canary", f'{{"word":"{WORD}","file":{named}}}', webhook=webhook)
    )
    await engine.send(song.id, "go", f'"event {WORD}"')
    ended = [await engine.wait(job.id, 60) for job in (*canaries, large, song)]
    stop.set()
    await running
    assert [job.state for job in ended[-2:]] == ["failed", "succeeded"], ended[-1].error
    return ended


def found_in(folder: Path) -> list[str]:
    """Return the files in which the word can be read."""
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and can_be_read_in(path.read_bytes())
    ]


def can_be_read_in(content: bytes) -> bool:
    """Tell whether the word is there, in one of the ways in which it is written down."""
    return any(sign in content for sign in SIGNS)
