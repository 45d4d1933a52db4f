"""The pipeline: one document from where it is to where it is found.

    fetch      from an address alone: what it has is on record
    compare    the bytes are those that are there already: the job is done
    extract    the text, in whatever format it comes
    chunk      the passages
    embed      so many passages at a time: their vectors are in the index, where nobody sees them,
               before the step is on record, and staged again they are there once
    publish    they become the document, in one transaction

Each is a step: what is on record is not done again, so a crash embeds at most one batch twice. What
changes nothing is not waited for where it was quick: it goes on record with the next.
What is staged stays when a job fails or is cancelled, for it may be resumed; what nobody came back
for is swept a day later. A job that comes back after that stages what is missing, then publishes.
A version is the job's own id: of two that bring the same document the later one wins.

The process that this runs in is the job's own. A file that finds a hole in a parser, or that no
parser gets through, ends it and no other job. Extracting and chunking have a time limit; a document
that takes longer fails its job, without a retry. What goes wrong is told in words of ours alone,
since an exception may quote the text it stumbled over.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel

from coatcheck.clock import SystemClock
from coatcheck.egress.guard import Guard
from coatcheck.errors import (
    CoatcheckError,
    ConfigurationError,
    Fail,
    HandlerSignal,
    Retry,
    StoreUnavailable,
)
from coatcheck.settings import Settings, load_settings
from coatcheck.surfaces.ingest.chunking import chunk as split
from coatcheck.surfaces.ingest.document import DocumentRequest, Ingested
from coatcheck.surfaces.ingest.embedding.base import Embedder, as_signals, passage_text
from coatcheck.surfaces.ingest.embedding.settings import EmbeddingSettings
from coatcheck.surfaces.ingest.fetching import Fetched, fetch_document, file_name_of
from coatcheck.surfaces.ingest.index.base import (
    EmbedderMismatch,
    Index,
    NewDocument,
    PassageKey,
    StagedGone,
    Vector,
    check_embedder,
    document_id,
)
from coatcheck.surfaces.ingest.index.staging import passage_key
from coatcheck.surfaces.ingest.kept import kept_open
from coatcheck.surfaces.ingest.settings import IngestSettings
from coatcheck.surfaces.ingest.values import Chunk, Extracted
from coatcheck.surfaces.ingest.words import BATCH
from coatcheck.worker.context import Context

log = logging.getLogger(__name__)

# What was staged longer ago is nobody's any more.
SWEPT_AFTER_MS = 24 * 3_600_000


class Compared(BaseModel):
    """What a document is, byte by byte; and where it is in the index as that, what it is there."""

    sha256: str
    size: int
    there: Ingested | None = None


async def ingest_document(ctx: Context, asked: DocumentRequest) -> Ingested:
    """Bring a document into its collection."""
    try:
        settings, embedding = load_settings(), EmbeddingSettings.read(os.environ)
    except ConfigurationError as error:
        raise Fail(error.code, str(error)) from None
    with tempfile.TemporaryDirectory(prefix="coatcheck-ingest-") as folder, _signals():
        async with kept_open(settings, embedding) as (index, embedder):
            return await Pipeline(ctx, asked, index, embedder, settings, Path(folder)).run()


class _Source(NamedTuple):
    path: Path
    name: str
    media_type: str | None


class Pipeline:
    """One document on its way. The methods that are steps are named as a card shows them."""

    def __init__(
        self,
        ctx: Context,
        asked: DocumentRequest,
        index: Index,
        embedder: Embedder,
        settings: Settings,
        folder: Path,
    ) -> None:
        self._ctx = ctx
        self._asked = asked
        self._index = index
        self._embedder = embedder
        self._settings = settings
        self._folder = folder
        self._tenant = ctx.tenant
        self._id = document_id(ctx.tenant, asked.collection, asked.name)
        self._version = ctx.job_id
        self._placed: _Source | None = None
        self._fetched: Fetched | None = None
        self._chunks: Sequence[Chunk] = ()

    async def run(self) -> Ingested:
        """Take every step that is not on record."""
        ctx = self._ctx
        if self._asked.url is not None:
            await ctx.phase("fetch")
            self._fetched = await ctx.step(self.fetch)
        await ctx.phase("compare")
        compared: Compared = await ctx.step(self.compare, wait=False)
        if compared.there is not None:
            return compared.there
        await ctx.phase("extract")
        # A hostile document may keep a parser busy; a second attempt would not do better.
        limit = IngestSettings.read(os.environ).step_seconds
        extracted: Extracted = await ctx.step(
            self.extract, timeout=limit, on_timeout="fail", wait=False
        )
        await ctx.phase("chunk")
        self._chunks = await ctx.step(
            self.chunk, extracted, timeout=limit, on_timeout="fail", wait=False
        )
        await ctx.phase("embed")
        total = len(self._chunks)
        await ctx.progress(0, total, "passages embedded")
        for number in range(-(-total // BATCH)):
            await ctx.step(self.embed, number, key=number)
            await ctx.progress(min(total, (number + 1) * BATCH), total, "passages embedded")
        await ctx.phase("publish")
        is_latest: bool = await ctx.step(self.publish, compared, extracted)
        return Ingested(
            document_id=self._id,
            collection=self._asked.collection,
            name=self._asked.name,
            title=extracted.title,
            format=extracted.format,
            language=extracted.language,
            sha256=compared.sha256,
            size=compared.size,
            passages=total,
            superseded=not is_latest,
            problems=extracted.problems,
        )

    # --- steps

    async def fetch(self) -> Fetched:
        """Fetch the document from its address."""
        limits = IngestSettings.read(os.environ)
        guard = Guard(self._settings.egress_allow)
        assert self._asked.url is not None
        return await fetch_document(
            self._asked.url, guard, limits.fetch_bytes, limits.fetch_seconds
        )

    async def compare(self) -> Compared:
        """Look whether the document is in the collection as it is."""
        source = await self._source()
        sha256, size = await asyncio.to_thread(_digest, source.path)
        asked, embedder = self._asked, self._embedder
        with _signals():
            there = await self._index.document(self._tenant, asked.collection, asked.name)
            if there is None or (there.sha256, there.embedder) != (sha256, embedder.name):
                collection = await self._index.collection(self._tenant, asked.collection)
                check_embedder(collection, embedder.name, await embedder.dimensions())
                return Compared(sha256=sha256, size=size)
            if dict(there.metadata) != asked.metadata:
                await self._index.describe(self._tenant, there.id, asked.metadata)
        same = Ingested(
            document_id=there.id,
            collection=there.collection,
            name=there.name,
            title=there.title,
            format=there.format,
            language=there.language,
            sha256=sha256,
            size=size,
            passages=there.passages,
            unchanged=True,
        )
        return Compared(sha256=sha256, size=size, there=same)

    async def extract(self) -> Extracted:
        """Read the text of the document."""
        source = await self._source()
        with _in_words_of_ours("reading-failed", "the document could not be read"):
            return await asyncio.to_thread(_read, source)

    async def chunk(self, extracted: Extracted) -> list[Chunk]:
        """Cut the text into passages."""
        with _in_words_of_ours("chunking-failed", "the document could not be cut into passages"):
            chunks = await asyncio.to_thread(split, extracted)
        if not chunks:
            raise Fail("document-no-text", "the document has no text")
        return list(chunks)

    async def embed(self, number: int) -> int:
        """Embed a batch of passages, and stage them."""
        batch = self._chunks[number * BATCH : (number + 1) * BATCH]
        await self._stage(batch)
        return len(batch)

    async def publish(self, compared: Compared, extracted: Extracted) -> bool:
        """Make what is staged the document; tell whether it is, or a later one."""
        await self._stage_missing()
        asked, embedder = self._asked, self._embedder
        now = SystemClock().now()
        with _signals():
            document = NewDocument(
                tenant=self._tenant,
                id=self._id,
                collection=asked.collection,
                name=asked.name,
                title=extracted.title,
                format=extracted.format,
                language=extracted.language,
                sha256=compared.sha256,
                size=compared.size,
                embedder=embedder.name,
                dimensions=await embedder.dimensions(),
                metadata=asked.metadata,
            )
            is_latest = await self._index.publish(document, self._version, len(self._chunks), now)
            if not is_latest:
                await self._index.discard(self._tenant, self._id, self._version)
            await self._index.sweep(now - SWEPT_AFTER_MS)
        return is_latest

    # --- what they are made of

    async def _stage(
        self, chunks: Sequence[Chunk], known: Mapping[PassageKey, Vector] = MappingProxyType({})
    ) -> None:
        with _signals():
            new = [each for each in chunks if passage_key(each) not in known]
            texts = [passage_text(each.text, each.headings) for each in new]
            embedded = iter(await self._embedder.embed_passages(texts) if texts else ())
            found = [known.get(passage_key(each)) for each in chunks]
            vectors = np.stack([next(embedded) if each is None else each for each in found])
            now = SystemClock().now()
            await self._index.stage(self._tenant, self._id, self._version, chunks, vectors, now)

    async def _stage_missing(self) -> None:
        """Stage again what was swept since, or what a fork has on record of another job. What the
        document has already is not embedded again.
        """
        with _signals():
            there = await self._index.staged(self._tenant, self._id, self._version)
            if len(there) == len(self._chunks):
                return
            row = await self._index.document_by_id(self._tenant, self._id)
            if row is not None and row.version == self._version and not there:
                return  # it was published, and that was not written down
            known: Mapping[PassageKey, Vector] = {}
            if row is not None and row.embedder == self._embedder.name:
                known = await self._index.vectors(self._tenant, self._id)
        missing = [each for each in self._chunks if each.ordinal not in there]
        for start in range(0, len(missing), BATCH):
            await self._stage(missing[start : start + BATCH], known)

    async def _source(self) -> _Source:
        """Return where the document's bytes are on this machine; they are put there once."""
        if self._placed is None:
            self._placed = await self._place()
        return self._placed

    async def _place(self) -> _Source:
        asked, path = self._asked, self._folder / "source"
        if asked.file is not None:
            return _Source(await self._ctx.file(asked.file), asked.name, asked.media_type)
        if self._fetched is not None:
            await asyncio.to_thread(path.write_bytes, self._fetched.content)
            return _Source(path, file_name_of(self._fetched.url), self._fetched.media_type)
        await asyncio.to_thread(path.write_bytes, (asked.text or "").encode())
        return _Source(path, asked.name, asked.media_type)


def _read(source: _Source) -> Extracted:
    # The parsers are for the process of a document alone: no API and no worker loads them.
    try:
        from coatcheck.surfaces.ingest.reading import Unreadable, read  # noqa: PLC0415
    except ModuleNotFoundError as error:
        words = f"reading documents needs {error.name}: pip install 'coatcheck[ingest]'"
        raise Fail(ConfigurationError.code, words) from None
    try:
        return read(source.path, source.name, source.media_type)
    except Unreadable as error:
        raise Fail(error.code, error.message) from None


def _digest(path: Path) -> tuple[str, int]:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size


@contextmanager
def _signals() -> Iterator[None]:
    """Say what an error of the embedder or of the index means for the job."""
    try:
        with as_signals():
            yield
    except EmbedderMismatch as error:
        raise Fail(error.code, str(error)) from None
    except StoreUnavailable as error:
        raise Retry(f"the index is not available: {error}", counts=False) from None
    except StagedGone as error:
        raise Retry(str(error)) from None


@contextmanager
def _in_words_of_ours(code: str, words: str) -> Iterator[None]:
    """Let no error through that may quote the document."""
    try:
        yield
    except (CoatcheckError, HandlerSignal, MemoryError):
        raise  # nobody's text is in these
    except Exception as error:  # noqa: BLE001 - whatever it is, its words stay here
        log.error(words, extra={"why": type(error).__name__, "at": _place(error)})
        raise Fail(code, f"{words} ({type(error).__name__})") from None


def _place(error: BaseException) -> str:
    """Return where something went wrong: the file and the line, and nothing it was about."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (
        "" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    )
