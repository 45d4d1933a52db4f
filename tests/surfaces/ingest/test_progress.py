"""The progress card of a document during embedding."""

from __future__ import annotations

import asyncio
import threading

import pytest

from coatcheck.surfaces.ingest.constants import BATCH

from .conftest import Serve
from .embedding_server import EmbeddingServer
from .texts import long_text

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

MARKER = "heron"
PASSAGES = 2 * BATCH + 10


async def test_the_card_counts_steps_and_batches(  # I09
    on_each_store: Serve, embedder: EmbeddingServer
) -> None:
    loop, second, goes_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def on_call(texts: list[str]) -> None:
        if any(f"{MARKER}{BATCH} " in text for text in texts):
            loop.call_soon_threadsafe(second.set)
            goes_on.wait(60)

    embedder.on_call = on_call
    async with on_each_store() as ingest:
        answer = await ingest.send(("herons.md", long_text(MARKER, PASSAGES).encode()))
        path = f"{answer.headers['location']}/card"
        await second.wait()
        try:
            card = (await ingest.http.get(path)).json()
        finally:
            goes_on.set()
        assert [(line["name"], line["done"], line["total"]) for line in card["steps"]] == [
            ("compare", 1, 1),
            ("extract", 1, 1),
            ("chunk", 1, 1),
            ("embed", 1, 3),
            ("publish", 0, 1),
        ]
        assert card["percent"] == 66  # three and a third of five steps
        await ingest.finished(answer)
        assert (await ingest.http.get(path)).json()["percent"] == 100
