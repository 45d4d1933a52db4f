"""Documents a second and passages a second, by stage, beside calling the libraries directly.

    python -m benchmarks.ingest [FOLDER ...] [--most 40]

Every document of the folders (docs/, unless told) is brought in twice: once by plain calls in one
process, read -> chunk -> embed -> stage -> publish, into an index on SQLite; and once as jobs on
one process slot, into another. What the engine adds is the difference of the two: taking the job
in, its steps on record, and the process around it. The process is warm on both sides: one document
goes before, and the model is loaded by then.

On a busy machine the numbers say little: the load stands beside them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coatcheck import App
from coatcheck.cli.ingest import ENDINGS
from coatcheck.cli.running import new_event_loop, open_engine
from coatcheck.engine.engine import Engine
from coatcheck.engine.submission import Submission
from coatcheck.ids import UlidGenerator
from coatcheck.model.job import Job
from coatcheck.model.upload import Upload
from coatcheck.settings import Settings
from coatcheck.surfaces.ingest.chunking import chunk
from coatcheck.surfaces.ingest.document import DocumentRequest
from coatcheck.surfaces.ingest.embedding.base import passage_text
from coatcheck.surfaces.ingest.embedding.open import open_embedder
from coatcheck.surfaces.ingest.embedding.settings import EmbeddingSettings
from coatcheck.surfaces.ingest.index.base import NewDocument, document_id
from coatcheck.surfaces.ingest.index.open import open_index
from coatcheck.surfaces.ingest.reading import read
from coatcheck.surfaces.ingest.surface import IngestSurface
from coatcheck.surfaces.ingest.words import BATCH, KIND
from coatcheck.worker.worker import Worker

WARM = "The first document is there so that everything is loaded.\n"
ROOT = Path(__file__).parent.parent
new_version = UlidGenerator()


class Stages:
    """The seconds that stages took."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.passages = 0
        self.total = 0.0

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - began


async def direct(files: list[Path], folder: Path) -> Stages:
    """Bring documents in by plain calls."""
    stages = Stages()
    embedder = open_embedder(EmbeddingSettings.read(os.environ))
    settings = Settings(database=f"sqlite:///{folder}/direct.db")
    async with open_index(settings) as index:
        dimensions = await embedder.dimensions()
        await embedder.embed_passages([WARM])
        began = time.perf_counter()
        for path in files:
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
                    path.stat().st_size,
                    embedder.name,
                    dimensions,
                )
                await index.publish(document, version, len(chunks), round(time.time() * 1000))
            stages.passages += len(chunks)
        stages.total = time.perf_counter() - began
    await embedder.close()
    return stages


async def as_jobs(files: list[Path], folder: Path) -> Stages:
    """Bring documents in as jobs, one after the other."""
    stages = Stages()
    app, surface = App(), IngestSurface()
    app.use(surface)
    settings = Settings(database=f"sqlite:///{folder}/jobs.db", processes=1, drain_s=0)
    async with open_engine(app, settings) as engine:
        stop, ready = asyncio.Event(), asyncio.Event()
        worker = Worker(engine, settings, new_loop=new_event_loop, scratch=folder / "scratch")
        running = asyncio.create_task(worker.run(stop, ready.set))
        await ready.wait()
        warm = DocumentRequest(collection="bench", name="warm", text=WARM)
        await engine.wait((await submit(engine, warm)).id, 300)
        began = time.perf_counter()
        jobs = [await hand_in(engine, path) for path in files]
        ended = [await engine.wait(job.id, 3_600) for job in jobs]
        stages.total = time.perf_counter() - began
        for job in ended:
            assert job.state == "succeeded", job.error
            for step in await engine.steps(job.id):
                took = (step.finished_at or step.started_at) - step.started_at
                stages.seconds[step.id.name] += took / 1000
                stages.passages += int(step.result or 0) if step.id.name == "embed" else 0
        stop.set()
        await running
    return stages


async def hand_in(engine: Engine, path: Path) -> Job:
    taken = await engine.uploads.receive(path, path.name)
    file = Upload(upload=taken.upload.id)
    return await submit(engine, DocumentRequest(collection="bench", name=str(path), file=file))


async def submit(engine: Engine, asked: DocumentRequest) -> Job:
    return await engine.submit(Submission(KIND, asked.model_dump_json(exclude_none=True)))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folders", nargs="*", type=Path, default=[ROOT / "docs"])
    options.add_argument("--most", type=int, default=40)
    chosen = options.parse_args()
    files = [
        path
        for folder in chosen.folders
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in ENDINGS and path.is_file()
    ][: chosen.most]
    with tempfile.TemporaryDirectory(prefix="ingest-") as folder:
        plain = asyncio.run(direct(files, Path(folder)))
        jobs = asyncio.run(as_jobs(files, Path(folder)))
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
    print(f"| all of it | {plain.total:.2f} s | {jobs.total:.2f} s | {rates} |")
    print(f"\nthe engine adds {(jobs.total / plain.total - 1):.1%}")


if __name__ == "__main__":
    main()
