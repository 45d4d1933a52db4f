"""Throughput of document ingest by stage, compared with calling the libraries directly.

    python -m benchmarks.ingest [FOLDER ...] [--most 40]

Every document of the folders (default: docs/) is ingested twice: by plain calls in one process,
read -> chunk -> embed -> stage -> publish, into an index on SQLite; and as a job on one process
slot, into another index, submitted and awaited. The difference is the engine's overhead: the
submission, the recorded steps, and the process. Both sides are warm: one document is ingested
before, so the model is loaded.

The two alternate document by document, because the speed of embedding varies within seconds by more
than the engine's overhead. On a busy machine the numbers mean little; the report includes the load.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from coatcheck import App
from coatcheck.cli.commands.ingest import SUFFIXES
from coatcheck.cli.server.runtime import new_event_loop, open_engine
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.ids import UlidGenerator
from coatcheck.model.job import Job
from coatcheck.model.upload import Upload
from coatcheck.settings import Settings
from coatcheck.surfaces.ingest.chunker import chunk
from coatcheck.surfaces.ingest.constants import BATCH, KIND
from coatcheck.surfaces.ingest.document import DocumentRequest
from coatcheck.surfaces.ingest.embedding.base import Embedder, passage_text
from coatcheck.surfaces.ingest.embedding.open import open_embedder
from coatcheck.surfaces.ingest.embedding.settings import EmbeddingSettings
from coatcheck.surfaces.ingest.index.base import Index, NewDocument, document_id
from coatcheck.surfaces.ingest.index.open import open_index
from coatcheck.surfaces.ingest.readers import read
from coatcheck.surfaces.ingest.submit import small_text
from coatcheck.surfaces.ingest.surface import IngestSurface
from coatcheck.worker.worker import Worker

WARM = "The first document is there so that everything is loaded.\n"
ROOT = Path(__file__).parent.parent
new_version = UlidGenerator()


class Stages:
    """The time spent in each stage."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.passages = 0
        self.took: list[float] = []  # by document

    @property
    def total(self) -> float:
        """The total time."""
        return sum(self.took)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - began


class DirectIngest:
    """Ingests documents by plain calls."""

    def __init__(self, index: Index, embedder: Embedder, dimensions: int) -> None:
        self._index = index
        self._embedder = embedder
        self._dimensions = dimensions
        self.stages = Stages()

    async def ingest(self, path: Path) -> None:
        """Ingest one document."""
        stages, index, embedder = self.stages, self._index, self._embedder
        began = time.perf_counter()
        with stages.timed("extract"):
            extracted = read(path, path.name)
        with stages.timed("chunk"):
            chunks = chunk(extracted)
        name, version = str(path), new_version()
        made = document_id("default", "bench", name)
        with stages.timed("embed"):
            for start in range(0, len(chunks), BATCH):
                batch = chunks[start : start + BATCH]
                texts = [passage_text(each.text, each.headings) for each in batch]
                vectors = await embedder.embed_passages(texts)
                now = round(time.time() * 1000)
                await index.stage("default", made, version, batch, vectors, now)
        with stages.timed("publish"):
            document = NewDocument(
                "default",
                made,
                "bench",
                name,
                extracted.title,
                extracted.format,
                extracted.language,
                "",
                0,
                embedder.name,
                self._dimensions,
            )
            await index.publish(document, version, len(chunks), round(time.time() * 1000))
        stages.passages += len(chunks)
        stages.took.append(time.perf_counter() - began)


@asynccontextmanager
async def open_direct(folder: Path) -> AsyncIterator[DirectIngest]:
    """Open an index and load the model."""
    embedder = open_embedder(EmbeddingSettings.read(os.environ))
    async with open_index(Settings(database=f"sqlite:///{folder}/direct.db")) as index:
        dimensions = await embedder.dimensions()
        await embedder.embed_passages([WARM])
        yield DirectIngest(index, embedder, dimensions)
    await embedder.close()


class JobIngest:
    """Ingests documents as jobs, one after the other."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.stages = Stages()

    async def ingest(self, path: Path) -> None:
        """Ingest one document."""
        stages, began = self.stages, time.perf_counter()
        job = await self._engine.wait((await submit_document(self._engine, path)).id, 3_600)
        stages.took.append(time.perf_counter() - began)
        assert job.state == "succeeded", job.error
        for step in await self._engine.steps(job.id):
            seconds = (step.finished_at or step.started_at) - step.started_at
            stages.seconds[step.id.name] += seconds / 1000
            stages.passages += int(step.result or 0) if step.id.name == "embed" else 0


@asynccontextmanager
async def open_jobs(folder: Path) -> AsyncIterator[JobIngest]:
    """Start a worker with one process, and have it load the model."""
    app = App()
    app.use(IngestSurface())
    settings = Settings(database=f"sqlite:///{folder}/jobs.db", processes=1, drain_s=0)
    async with open_engine(app, settings) as engine:
        stop, ready = asyncio.Event(), asyncio.Event()
        worker = Worker(engine, settings, new_loop=new_event_loop, scratch=folder / "scratch")
        running = asyncio.create_task(worker.run(stop, ready.set))
        await ready.wait()
        warm = DocumentRequest(collection="bench", name="warm", text=WARM)
        await engine.wait((await submit(engine, warm)).id, 300)
        yield JobIngest(engine)
        stop.set()
        await running


async def alternate(files: list[Path], folder: Path) -> tuple[Stages, Stages]:
    """Ingest each document both ways, in alternating order."""
    async with open_direct(folder) as plain, open_jobs(folder) as jobs:
        for number, path in enumerate(files):
            for way in (plain, jobs) if number % 2 else (jobs, plain):
                await way.ingest(path)
        return plain.stages, jobs.stages


async def submit_document(engine: Engine, path: Path) -> Job:
    """Submit a document as the surface does: a small text inline, anything else as an upload."""
    request = {"collection": "bench", "name": str(path)}
    if (text := small_text(await asyncio.to_thread(path.read_bytes))) is not None:
        return await submit(engine, DocumentRequest(**request, text=text))
    taken = await engine.uploads.receive(path, path.name)
    file = Upload(upload=taken.upload.id)
    return await submit(engine, DocumentRequest(**request, file=file))


async def submit(engine: Engine, request: DocumentRequest) -> Job:
    return await engine.submit(Submission(KIND, request.model_dump_json(exclude_none=True)))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folders", nargs="*", type=Path, default=[ROOT / "docs"])
    options.add_argument("--most", type=int, default=40)
    chosen = options.parse_args()
    files = [
        path
        for folder in chosen.folders
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in SUFFIXES and path.is_file()
    ][: chosen.most]
    with (
        tempfile.TemporaryDirectory(prefix="ingest-") as folder,
        asyncio.Runner(loop_factory=new_event_loop) as runner,
    ):
        plain, jobs = runner.run(alternate(files, Path(folder)))
    assert plain.passages == jobs.passages, (plain.passages, jobs.passages)
    report(files, plain, jobs)


def report(files: list[Path], plain: Stages, jobs: Stages) -> None:
    documents, passages = len(files), plain.passages
    print(f"{documents} documents, {passages} passages, load {os.getloadavg()[0]:.1f}\n")
    print("| stage | direct | as jobs | documents/s | passages/s |\n|---|---|---|---|---|")
    for name in ("compare", "extract", "chunk", "embed", "publish"):
        took = jobs.seconds[name]
        rates = f"{documents / took:,.1f} | {passages / took:,.1f}" if took else "- | -"
        print(f"| {name} | {plain.seconds[name]:.2f} s | {took:.2f} s | {rates} |")
    rates = f"{documents / jobs.total:,.1f} | {passages / jobs.total:,.1f}"
    print(f"| total | {plain.total:.2f} s | {jobs.total:.2f} s | {rates} |")
    more = [mine - theirs for mine, theirs in zip(jobs.took, plain.took, strict=True)]
    added = statistics.median(more)
    alone = statistics.median(plain.took)
    print(f"\nengine overhead: {(jobs.total / plain.total - 1):.1%} in total")
    print(
        f"per document {added * 1000:.0f} ms of {alone * 1000:.0f}, {added / alone:.1%} (medians)"
    )


if __name__ == "__main__":
    main()
