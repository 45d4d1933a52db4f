"""A crash repeats at most one batch and reads nothing again, at any point and on both stores."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from coatcheck.engine.submit.submission import Submission
from coatcheck.model.upload import Upload
from coatcheck.surfaces.ingest.constants import BATCH, KIND
from coatcheck.surfaces.ingest.document import DocumentRequest

from .conftest import Serve
from .embedding_server import EmbeddingServer
from .ingest_server import Ingest, kill_readers
from .texts import long_text

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

PASSAGES = 2 * BATCH + 10
BATCHES = 3
MARKER = "otter"


async def submit(ingest: Ingest) -> str:
    """Submit a document with many attempts."""
    upload = await ingest.engine.uploads.receive(
        long_text(MARKER, PASSAGES).encode(), "otters.md", "text/markdown"
    )
    request = DocumentRequest(name="otters.md", file=Upload(upload=upload.upload.id))
    submission = Submission(KIND, request.model_dump_json(exclude_none=True), max_attempts=100)
    return (await ingest.engine.submit(submission)).id


class Killer:
    """Kills the process that reads a document.

    It strikes once during each batch, and once when a batch is staged but not recorded.
    """

    def __init__(self, embedder: EmbeddingServer) -> None:
        self._embedder = embedder
        self._struck: set[tuple[str, int]] = set()
        self._answered = 0  # embedded batches
        self.kills = 0
        embedder.on_call = self.on_call

    def on_call(self, texts: list[str]) -> None:
        """Strike when a batch is requested for the first time."""
        if not any(MARKER in text for text in texts):
            return
        number = self._number_of(texts)
        if not self._strike("request", number):
            self._answered = number + 1

    def failpoint(self, point: str) -> None:
        """Strike when a batch is about to be recorded for the first time."""
        if point == "worker.before_checkpoint" and self._answered:
            number, self._answered = self._answered - 1, 0
            if self._strike("staged", number):
                raise RuntimeError("and with the process, what it wanted to write is gone")

    def _strike(self, when: str, number: int) -> bool:
        if (when, number) in self._struck:
            return False
        self._struck.add((when, number))
        assert kill_readers() > 0
        self.kills += 1
        return True

    def _number_of(self, texts: list[str]) -> int:
        numbers = [int(text.split(MARKER)[-1].split()[0]) for text in texts]
        return min(numbers) // BATCH


async def test_kill_at_every_batch(  # I01, I02, I03, I04
    on_each_store: Serve, embedder: EmbeddingServer
) -> None:
    killer = Killer(embedder)
    async with on_each_store(failpoint=killer.failpoint) as ingest:
        job = await ingest.engine.wait(await submit(ingest), 200)
        assert job.state == "succeeded", (job.state, job.error)
        assert killer.kills == 2 * BATCHES

        times = embedder.times_embedded(MARKER)
        assert len(times) == PASSAGES
        # Of the three requests, one was cut off before it was embedded, and one was not recorded.
        assert times == [3] * PASSAGES

        steps = await ingest.engine.steps(job.id)
        names = [step.id.name for step in steps]
        assert names == ["compare", "extract", "chunk", *["embed"] * BATCHES, "publish"]
        assert [step.attempts for step in steps] == [1] * len(steps)
        [extract, chunk] = steps[1:3]
        first = min(step.started_at for step in steps[3:])
        assert extract.finished_at is not None and chunk.finished_at is not None
        assert extract.finished_at <= chunk.finished_at <= first, "neither ran again"

        found = await ingest.search("otter stands", mode="text", k=100)
        assert len(found) == 100
        assert json.loads(job.result or "")["passages"] == PASSAGES
        [document] = (await ingest.http.get("/v1/collections/default/documents")).json()[
            "documents"
        ]
        assert document["passages"] == PASSAGES, "each passage once, however often it was staged"


async def test_resumed_job_continues_where_it_was_cancelled(
    on_each_store: Serve, embedder: EmbeddingServer
) -> None:
    async with on_each_store() as ingest:
        job_id = await submit(ingest)
        loop, second, stopped = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

        def on_call(texts: list[str]) -> None:
            if any(f"{MARKER}{BATCH} " in text for text in texts):
                loop.call_soon_threadsafe(second.set)
                stopped.wait(60)

        embedder.on_call = on_call
        await second.wait()
        await ingest.engine.cancel(job_id)
        stopped.set()
        embedder.on_call = lambda texts: None
        assert (await ingest.engine.wait(job_id, 60)).state == "cancelled"
        card = (await ingest.http.get(f"/v1/jobs/{job_id}/card")).json()
        assert {
            line["name"]: (line["state"], line["done"], line["total"]) for line in card["steps"]
        }["embed"] == ("cancelled", 1, BATCHES)
        assert card["actions"]["resume"] == f"/v1/jobs/{job_id}/resume"
        assert (await ingest.http.get("/v1/collections")).json() == {"collections": []}

        assert (await ingest.http.post(card["actions"]["resume"])).status_code == 202
        assert (await ingest.engine.wait(job_id, 60)).state == "succeeded"
        times = embedder.times_embedded(MARKER)
        assert times == [1] * BATCH + [2] * BATCH + [1] * 10
