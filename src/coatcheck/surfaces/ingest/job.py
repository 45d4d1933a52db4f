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

This runs in a process that is confined (worker/processes/confined.py): it reads the document, cuts
it and embeds it with the offline model. Fetching, the index and an endpoint that embeds are the
worker's (service.py). A file that finds a hole in a parser, or that no parser gets through, ends
that process and no other job. Extracting and chunking have a time limit; a document that takes
longer fails its job, without a retry. What goes wrong is told in words of ours alone, since an
exception may quote the text it stumbled over.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter

from coatcheck.errors import (
    CoatcheckError,
    ConfigurationError,
    Fail,
    HandlerSignal,
    Retry,
    StoreUnavailable,
)
from coatcheck.surfaces.ingest.chunker import chunk as split
from coatcheck.surfaces.ingest.constants import BATCH
from coatcheck.surfaces.ingest.document import DocumentRequest, Ingested
from coatcheck.surfaces.ingest.embedding.base import Embedder, passage_text
from coatcheck.surfaces.ingest.embedding.open import open_embedder
from coatcheck.surfaces.ingest.embedding.settings import EMBEDDER, EmbeddingSettings
from coatcheck.surfaces.ingest.exchange import (
    Compared,
    Publication,
    pack,
    raise_signal,
    unpack,
    unpack_vectors,
)
from coatcheck.surfaces.ingest.fetch import FetchedDocument, file_name_of
from coatcheck.surfaces.ingest.index.base import PassageKey, Vector, document_id
from coatcheck.surfaces.ingest.index.staged import passage_key
from coatcheck.surfaces.ingest.settings import IngestSettings
from coatcheck.surfaces.ingest.stages import Chunk, Extracted
from coatcheck.worker.steps.context import Context

log = logging.getLogger(__name__)

_CHUNKS = TypeAdapter(list[Chunk])


async def ingest_document(ctx: Context, asked: DocumentRequest) -> Ingested:
    """Bring a document into its collection."""
    with tempfile.TemporaryDirectory(prefix="coatcheck-ingest-") as folder, _signals():
        return await Pipeline(ctx, asked, _embedder_here(), Path(folder)).run()


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
        embedder: Embedder | None,
        folder: Path,
    ) -> None:
        self._ctx = ctx
        self._asked = asked
        self._embedder = embedder  # None: the worker's service embeds
        self._folder = folder
        self._id = document_id(ctx.tenant, asked.collection, asked.name)
        self._placed: _Source | None = None
        self._fetched: FetchedDocument | None = None
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

    async def fetch(self) -> FetchedDocument:
        """Fetch the document from its address."""
        fields, content = await self._ask("fetch")
        return FetchedDocument(**fields, content=content)

    async def compare(self) -> Compared:
        """Look whether the document is in the collection as it is."""
        source = await self._source()
        sha256, size = await asyncio.to_thread(_digest, source.path)
        fields, _ = await self._ask("compare", {"sha256": sha256, "size": size})
        return Compared.model_validate(fields)

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
        found = Publication(
            title=extracted.title,
            format=extracted.format,
            language=extracted.language,
            sha256=compared.sha256,
            size=compared.size,
            passages=len(self._chunks),
        )
        fields, _ = await self._ask("publish", found.model_dump(mode="json"))
        return bool(fields["is_latest"])

    # --- what they are made of

    async def _ask(
        self, name: str, fields: dict[str, Any] | None = None, data: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        """Ask the worker's service (service.py); raises the signal that is the answer, if it is."""
        answer, found = unpack(await self._ctx.service(name, pack(fields or {}, data)))
        raise_signal(answer)
        return answer, found

    async def _stage(
        self,
        chunks: Sequence[Chunk],
        known: Mapping[PassageKey, Vector] | None = MappingProxyType({}),
    ) -> None:
        """Have passages staged; with `known` None, the service embeds none that it knows."""
        fields = {"chunks": _CHUNKS.dump_python(list(chunks), mode="json"), "reuse": known is None}
        vectors = b""
        if self._embedder is not None:
            vectors = await self._vectors(self._embedder, chunks, known or {})
        await self._ask("stage", fields, vectors)

    async def _vectors(
        self, embedder: Embedder, chunks: Sequence[Chunk], known: Mapping[PassageKey, Vector]
    ) -> bytes:
        new = [each for each in chunks if passage_key(each) not in known]
        texts = [passage_text(each.text, each.headings) for each in new]
        embedded = iter(await embedder.embed_passages(texts) if texts else ())
        found = [known.get(passage_key(each)) for each in chunks]
        return np.stack([next(embedded) if each is None else each for each in found]).tobytes()

    async def _stage_missing(self) -> None:
        """Stage again what was swept since, or what a fork has on record of another job. What the
        document has already is not embedded again.
        """
        fields, _ = await self._ask("staged")
        there = set(fields["ordinals"])
        if len(there) == len(self._chunks):
            return
        if fields["published"] and not there:
            return  # it was published, and that was not written down
        known = None if self._embedder is None else await self._known()
        missing = [each for each in self._chunks if each.ordinal not in there]
        for start in range(0, len(missing), BATCH):
            await self._stage(missing[start : start + BATCH], known)

    async def _known(self) -> dict[PassageKey, Vector]:
        fields, data = await self._ask("known")
        keys = [(text, headings) for text, headings in fields["keys"]]
        return dict(zip(keys, unpack_vectors(data, len(keys)), strict=True)) if keys else {}

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


@lru_cache(1)
def _embedder_here() -> Embedder | None:
    """Return the embedder of this process, kept from job to job; None if an endpoint embeds, which
    the worker's service asks.
    """
    if os.environ.get(EMBEDDER, "").strip().lower() not in ("", EmbeddingSettings.embedder):
        return None
    try:
        return open_embedder(EmbeddingSettings())
    except ConfigurationError as error:
        raise Fail(error.code, str(error)) from None


def _read(source: _Source) -> Extracted:
    # The parsers are for the process of a document alone: no API and no worker loads them.
    try:
        from coatcheck.surfaces.ingest.readers import UnreadableDocument, read  # noqa: PLC0415
    except ModuleNotFoundError as error:
        words = f"reading documents needs {error.name}: pip install 'coatcheck[ingest]'"
        raise Fail(ConfigurationError.code, words) from None
    try:
        return read(source.path, source.name, source.media_type)
    except UnreadableDocument as error:
        raise Fail(error.code, error.message) from None


def _digest(path: Path) -> tuple[str, int]:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size


@contextmanager
def _signals() -> Iterator[None]:
    """Give the attempt back if the worker could not answer."""
    try:
        yield
    except StoreUnavailable as error:
        raise Retry(f"the worker cannot answer: {error}", counts=False) from None


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
