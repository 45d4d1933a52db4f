"""Search quality and speed on both stores.

    python -m benchmarks.ingest_search                     recall on the labelled sets
    python -m benchmarks.ingest_search --speed 1000 50000  milliseconds at these sizes
    python -m benchmarks.ingest_search --store sqlite --speed 200000

There are two labelled sets in `labelled/`: passages, each with a query that it answers. The
embedder and the two constants of the fusion were chosen on `chosen_by.tsv`, so its hybrid results
are optimistic. Its queries paraphrase the passages, and repeat them by keywords. `held_out.tsv` was
written afterwards, and nothing was chosen on it: names and numbers, paraphrases, and passages that
differ in one number only. Its queries run against the passages of both sets.

For speed the vectors are synthetic: clusters of 384 dimensions, with words distributed as in real
texts, a few very frequent and most of them rare. The loss by comparing signs first is given as the
share of the exact results that are found.
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
DOCUMENT = 500  # passages of a synthetic document
Vectors = NDArray[np.float32]

new_version = UlidGenerator()


@dataclass(frozen=True)
class IndexLocation:
    """The location of an index: a file, or a PostgreSQL schema."""

    store: str
    address: str

    def index(self, exact_up_to: int = EXACT_UP_TO) -> Index:
        if self.store == "sqlite":
            return SQLiteIndex(Path(self.address), exact_up_to=exact_up_to)
        return PostgresIndex(self.address, schema="bench", exact_up_to=exact_up_to)


@asynccontextmanager
async def locations(store: str) -> AsyncIterator[IndexLocation]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        if store == "sqlite":
            yield IndexLocation(store, str(Path(folder) / "jobs-search.db"))
            return
        with TrialServer() as server:
            yield IndexLocation(store, server.dsn)


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


# --- recall


def labelled(file: str) -> list[list[str]]:
    return [line.split("\t") for line in (LABELLED / file).read_text().splitlines()]


async def recall(store: str) -> None:
    chosen, held_out = labelled("chosen_by.tsv"), labelled("held_out.tsv")
    queries = {
        "chosen by: other words": (chosen, [(row[0], row[2]) for row in chosen]),
        "chosen by: keywords": (chosen, [(row[0], row[3]) for row in chosen]),
        "held out": (chosen + held_out, [(row[0], row[2]) for row in held_out]),
    }
    embedder = OfflineEmbedder()
    for name, (passages, questions) in queries.items():
        async with locations(store) as location, location.index() as index:
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


# --- speed


class SyntheticPassages:
    """An endless, reproducible source of texts and vectors."""

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


async def fill(index: Index, synthetic: SyntheticPassages, passages: int, so_far: int) -> None:
    for first in range(so_far, passages, DOCUMENT):
        count = min(DOCUMENT, passages - first)
        texts = [synthetic.text(150) for _ in range(count)]
        await put(index, f"document{first}", texts, synthetic.vectors(count))


async def speed(store: str, sizes: Sequence[int], searches: int) -> None:
    async with locations(store) as location:
        synthetic, so_far = SyntheticPassages(), 0
        for passages in sorted(sizes):
            async with location.index() as index:
                began = time.perf_counter()
                await fill(index, synthetic, passages, so_far)
                rate = (passages - so_far) / (time.perf_counter() - began)
                so_far = passages
                queries = [
                    Query(synthetic.text(6), 10, Mode.HYBRID, synthetic.vectors(1)[0], "bench")
                    for _ in range(searches)
                ]
                for mode in Mode:
                    row = await _speed_row(index, store, passages, mode, queries)
                    print(row, flush=True)
            kept = await recall_by_signs(location, queries[:20])
            print(
                f"{store}, {passages}: {rate:.0f} passages/s ingested, {kept:.3f} recall by signs"
            )


async def _speed_row(
    index: Index, store: str, passages: int, mode: Mode, queries: Sequence[Query]
) -> str:
    taken = []
    for query in queries:
        one = Query(query.text, query.k, mode, query.vector, query.embedder)
        began = time.perf_counter()
        await index.search("bench", "docs", one)
        taken.append(1000 * (time.perf_counter() - began))
    steps = statistics.quantiles(taken, n=100)
    return f"| {store} | {passages:,} | {mode} | {steps[49]:.1f} | {steps[98]:.1f} |"


async def recall_by_signs(location: IndexLocation, queries: Sequence[Query]) -> float:
    """Return the share of the ten nearest passages that are found if signs are compared first."""
    found: list[list[set[tuple[str, int]]]] = []
    for exact_up_to in (0, EVERYTHING):
        async with location.index(exact_up_to) as index:
            found.append([await nearest(index, query) for query in queries])
    return statistics.mean(
        len(signs & every) / len(every) for signs, every in zip(*found, strict=True)
    )


async def nearest(index: Index, query: Query) -> set[tuple[str, int]]:
    one = Query(query.text, query.k, Mode.VECTOR, query.vector, query.embedder)
    return {(each.name, each.ordinal) for each in await index.search("bench", "docs", one)}


def _stores(choice: str) -> Iterator[str]:
    yield from ("sqlite", "postgres") if choice == "both" else (choice,)


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
