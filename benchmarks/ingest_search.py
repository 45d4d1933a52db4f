"""Search: what is found, and how fast, on both stores.

    python -m benchmarks.ingest_search                     recall on the labelled sets
    python -m benchmarks.ingest_search --speed 1000 50000  milliseconds at so many passages
    python -m benchmarks.ingest_search --store sqlite --speed 200000

Two sets are labelled, both in `labelled/`: passages, each with a question that it answers. On
`chosen_by.tsv` the embedder and the two numbers of the fusion were chosen, so what is found there
by both together flatters; it asks in words that the passages do not have, and again by keywords.
`held_out.tsv` was written after that, and nothing was chosen by it: names and numbers, sentences
in other words, and passages that differ in one number only. Its questions are put to the passages
of both.

For speed the vectors are made up: in clusters, of 384 numbers, and the words drawn as they are in
texts, few very often and most seldom. What the search leaves out by comparing signs first is given
as the share of what comparing all vectors finds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tests.postgres.server import TrialServer

from coatcheck.ids import UlidGenerator
from coatcheck.surfaces.ingest.document import Chunk
from coatcheck.surfaces.ingest.embedding.offline import OfflineEmbedder
from coatcheck.surfaces.ingest.index.base import Index, Mode, NewDocument, Query, document_id
from coatcheck.surfaces.ingest.index.postgres.index import PostgresIndex
from coatcheck.surfaces.ingest.index.ranking import EXACT_UP_TO
from coatcheck.surfaces.ingest.index.sqlite.index import SQLiteIndex

LABELLED = Path(__file__).parent / "labelled"
EVERYTHING = 10**9
DIMENSIONS = 384
DOCUMENT = 500  # passages of a document made up
Vectors = NDArray[np.float32]

new_version = UlidGenerator()


@dataclass(frozen=True)
class Place:
    """Where an index is: a file, or a PostgreSQL."""

    store: str
    address: str

    def index(self, exact_up_to: int = EXACT_UP_TO) -> Index:
        if self.store == "sqlite":
            return SQLiteIndex(Path(self.address), exact_up_to=exact_up_to)
        return PostgresIndex(self.address, schema="bench", exact_up_to=exact_up_to)


@asynccontextmanager
async def places(store: str) -> AsyncIterator[Place]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        if store == "sqlite":
            yield Place(store, str(Path(folder) / "jobs-search.db"))
            return
        with TrialServer() as server:
            yield Place(store, server.dsn)


async def put(index: Index, name: str, texts: Sequence[str], vectors: Vectors) -> None:
    version, document = new_version(), document_id("bench", "docs", name)
    chunks = [
        Chunk(ordinal=number, text=text, start=0, end=len(text), page=None)
        for number, text in enumerate(texts)
    ]
    await index.stage("bench", document, version, chunks, vectors, 0)
    new = NewDocument(
        tenant="bench",
        id=document,
        collection="docs",
        name=name,
        title=name,
        format="text",
        language=None,
        sha256="",
        size=0,
        embedder="bench",
        dimensions=vectors.shape[1],
    )
    await index.publish(new, version, len(texts), 0)


# --- what is found


def labelled(file: str) -> list[list[str]]:
    return [line.split("\t") for line in (LABELLED / file).read_text().splitlines()]


async def recall(store: str) -> None:
    chosen, held_out = labelled("chosen_by.tsv"), labelled("held_out.tsv")
    asked = {
        "chosen by: other words": (chosen, [(row[0], row[2]) for row in chosen]),
        "chosen by: keywords": (chosen, [(row[0], row[3]) for row in chosen]),
        "held out": (chosen + held_out, [(row[0], row[2]) for row in held_out]),
    }
    embedder = OfflineEmbedder()
    for name, (passages, questions) in asked.items():
        async with places(store) as place, place.index() as index:
            for row in passages:
                await put(index, row[0], [row[1]], await embedder.embed_passages([row[1]]))
            for mode in Mode:
                ranks = []
                for right, question in questions:
                    vector = await embedder.embed_query(question)
                    query = Query(question, 10, mode, vector, "bench")
                    found = [each.name for each in await index.search("bench", "docs", query)]
                    ranks.append(found.index(right) if right in found else None)
                print(_recall_row(store, name, mode, ranks), flush=True)
    await embedder.close()


def _recall_row(store: str, name: str, mode: Mode, ranks: Sequence[int | None]) -> str:
    at = [sum(rank is not None and rank < k for rank in ranks) / len(ranks) for k in (1, 3, 10)]
    mean = statistics.mean(0 if rank is None else 1 / (rank + 1) for rank in ranks)
    shares = " | ".join(f"{share:.2f}" for share in (*at, mean))
    return f"| {store} | {name} | {len(ranks)} | {mode} | {shares} |"


# --- how fast


class MadeUp:
    """Texts and vectors without end, the same every time."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(7)
        self._centres = self._random.standard_normal((2000, DIMENSIONS)).astype(np.float32)
        self._words = np.array([f"word{number}" for number in range(50_000)])

    def vectors(self, count: int) -> Vectors:
        near = self._centres[self._random.integers(len(self._centres), size=count)]
        made: Vectors = near + 0.7 * self._random.standard_normal(near.shape).astype(np.float32)
        return made

    def text(self, words: int) -> str:
        drawn = self._random.zipf(1.15, size=words) % len(self._words)
        return " ".join(self._words[drawn])


async def fill(index: Index, made_up: MadeUp, passages: int, so_far: int) -> None:
    for first in range(so_far, passages, DOCUMENT):
        count = min(DOCUMENT, passages - first)
        texts = [made_up.text(150) for _ in range(count)]
        await put(index, f"document{first}", texts, made_up.vectors(count))


async def speed(store: str, sizes: Sequence[int], searches: int) -> None:
    async with places(store) as place:
        made_up, so_far = MadeUp(), 0
        for passages in sorted(sizes):
            async with place.index() as index:
                began = time.perf_counter()
                await fill(index, made_up, passages, so_far)
                rate = (passages - so_far) / (time.perf_counter() - began)
                so_far = passages
                asked = [
                    Query(made_up.text(6), 10, Mode.HYBRID, made_up.vectors(1)[0], "bench")
                    for _ in range(searches)
                ]
                for mode in Mode:
                    print(await _speed_row(index, store, passages, mode, asked), flush=True)
            kept = await kept_by_signs(place, asked[:20])
            print(f"{store}, {passages}: {rate:.0f} passages/s put in, {kept:.3f} kept by signs")


async def _speed_row(
    index: Index, store: str, passages: int, mode: Mode, asked: Sequence[Query]
) -> str:
    taken = []
    for query in asked:
        one = Query(query.text, query.k, mode, query.vector, query.embedder)
        began = time.perf_counter()
        await index.search("bench", "docs", one)
        taken.append(1000 * (time.perf_counter() - began))
    steps = statistics.quantiles(taken, n=100)
    return f"| {store} | {passages:,} | {mode} | {steps[49]:.1f} | {steps[98]:.1f} |"


async def kept_by_signs(place: Place, asked: Sequence[Query]) -> float:
    """Return which share of the ten nearest is found when signs are compared first."""
    found: list[list[set[tuple[str, int]]]] = []
    for exact_up_to in (0, EVERYTHING):
        async with place.index(exact_up_to) as index:
            found.append([await nearest(index, query) for query in asked])
    return statistics.mean(
        len(signs & every) / len(every) for signs, every in zip(*found, strict=True)
    )


async def nearest(index: Index, query: Query) -> set[tuple[str, int]]:
    one = Query(query.text, query.k, Mode.VECTOR, query.vector, query.embedder)
    return {(each.name, each.ordinal) for each in await index.search("bench", "docs", one)}


def _stores(asked: str) -> Iterator[str]:
    yield from ("sqlite", "postgres") if asked == "both" else (asked,)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--speed", nargs="+", type=int, default=[])
    options.add_argument("--store", choices=["both", "sqlite", "postgres"], default="both")
    options.add_argument("--searches", type=int, default=100)
    chosen = options.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for store in _stores(chosen.store):
        if chosen.speed:
            asyncio.run(speed(store, chosen.speed, chosen.searches))
        else:
            asyncio.run(recall(store))
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
