"""The pipeline: from a document's source to its passages in the index.

    fetch      only for a URL: download the document and record its bytes
    compare    finish at once if the index already has these bytes
    extract    read the text, in any format
    chunk      split the text into passages
    embed      one batch of passages: stage their vectors, where no search finds them, before the
               step is recorded; staging twice has no further effect
    publish    make the staged passages the document, in one transaction

Each is a step. A recorded step does not run again, so a crash repeats at most one batch. Short
steps without side effects are not awaited; they are recorded with the next one.

Staged passages remain when a job fails or is cancelled, because it may be resumed. They are swept
after a day. A job that resumes later stages the missing ones again and then publishes. The version
of a document is the job's id: of two jobs for the same document, the later one wins.

The pipeline runs in a sandboxed process (worker/processes/confined.py). It reads the document,
splits it and embeds it with the offline model. The worker's service (service.py) fetches, accesses
the index and calls an embedding endpoint. A file that exploits a parser or hangs it ends this
process and no other job. Extracting and chunking have a time limit; a document that exceeds it
fails without a retry. Error messages never contain the text of an exception, because it may quote
the document.
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
from coatcheck.surfaces.ingest.document import Chunk, DocumentRequest, Extracted, Ingested
from coatcheck.surfaces.ingest.embedding.base import Embedder, passage_text
from coatcheck.surfaces.ingest.embedding.open import open_embedder
from coatcheck.surfaces.ingest.embedding.settings import EMBEDDER, EmbeddingSettings
from coatcheck.surfaces.ingest.fetch import FetchedDocument, file_name_of
from coatcheck.surfaces.ingest.index.base import PassageKey, Vector, document_id
from coatcheck.surfaces.ingest.index.passages import passage_key
from coatcheck.surfaces.ingest.messages import (
    Comparison,
    Publication,
    pack,
    raise_signal,
    unpack,
    unpack_vectors,
)
from coatcheck.surfaces.ingest.settings import IngestSettings
from coatcheck.worker.steps.context import Context

log = logging.getLogger(__name__)

_CHUNKS = TypeAdapter(list[Chunk])


async def ingest_document(ctx: Context, request: DocumentRequest) -> Ingested:
    """Ingest a document into its collection."""
    with tempfile.TemporaryDirectory(prefix="coatcheck-ingest-") as folder, _signals():
        embedder = _open_local_embedder()
        try:
            return await Pipeline(ctx, request, embedder, Path(folder)).run()
        finally:
            if embedder is not None:
                await embedder.close()


class _Source(NamedTuple):
    path: Path
    name: str
    media_type: str | None


class Pipeline:
    """The steps of one document. A job's card shows their method names."""

    def __init__(
        self,
        ctx: Context,
        request: DocumentRequest,
        embedder: Embedder | None,
        folder: Path,
    ) -> None:
        self._ctx = ctx
        self._request = request
        self._embedder = embedder  # None: the worker's service embeds
        self._folder = folder
        self._id = document_id(ctx.tenant, request.collection, request.name)
        self._source_file: _Source | None = None
        self._fetched: FetchedDocument | None = None
        self._chunks: Sequence[Chunk] = ()

    async def run(self) -> Ingested:
        """Run every step that is not recorded."""
        ctx = self._ctx
        if self._request.url is not None:
            await ctx.phase("fetch")
            self._fetched = await ctx.step(self.fetch)
        await ctx.phase("compare")
        compared: Comparison = await ctx.step(self.compare, wait=False)
        if compared.there is not None:
            return compared.there
        await ctx.phase("extract")
        # A hostile document may keep a parser busy; another attempt would not end differently.
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
            collection=self._request.collection,
            name=self._request.name,
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
        """Fetch the document from its URL."""
        fields, content = await self._call("fetch")
        return FetchedDocument(**fields, content=content)

    async def compare(self) -> Comparison:
        """Check whether the index already has the document with these bytes."""
        source = await self._source()
        sha256, size = await asyncio.to_thread(_digest, source.path)
        fields, _ = await self._call("compare", {"sha256": sha256, "size": size})
        return Comparison.model_validate(fields)

    async def extract(self) -> Extracted:
        """Extract the text of the document."""
        source = await self._source()
        with _redact_errors("reading-failed", "the document could not be read"):
            return await asyncio.to_thread(_read, source)

    async def chunk(self, extracted: Extracted) -> list[Chunk]:
        """Split the text into passages."""
        with _redact_errors("chunking-failed", "the document could not be split into passages"):
            chunks = await asyncio.to_thread(split, extracted)
        if not chunks:
            raise Fail("document-no-text", "the document has no text")
        return list(chunks)

    async def embed(self, number: int) -> int:
        """Embed one batch of passages and stage it."""
        batch = self._chunks[number * BATCH : (number + 1) * BATCH]
        await self._stage(batch)
        return len(batch)

    async def publish(self, compared: Comparison, extracted: Extracted) -> bool:
        """Publish the staged passages; return whether this is the latest version."""
        await self._stage_missing()
        found = Publication(
            title=extracted.title,
            format=extracted.format,
            language=extracted.language,
            sha256=compared.sha256,
            size=compared.size,
            passages=len(self._chunks),
        )
        fields, _ = await self._call("publish", found.model_dump(mode="json"))
        return bool(fields["is_latest"])

    # --- helpers

    async def _call(
        self, name: str, fields: dict[str, Any] | None = None, data: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        """Call the worker's service (service.py); raise the signal in the response, if any."""
        response, found = unpack(await self._ctx.service(name, pack(fields or {}, data)))
        raise_signal(response)
        return response, found

    async def _stage(
        self,
        chunks: Sequence[Chunk],
        known: Mapping[PassageKey, Vector] | None = MappingProxyType({}),
    ) -> None:
        """Stage passages. If `known` is None, the service reuses vectors of unchanged passages."""
        fields = {"chunks": _CHUNKS.dump_python(list(chunks), mode="json"), "reuse": known is None}
        vectors = b""
        if self._embedder is not None:
            vectors = await self._vectors(self._embedder, chunks, known or {})
        await self._call("stage", fields, vectors)

    async def _vectors(
        self, embedder: Embedder, chunks: Sequence[Chunk], known: Mapping[PassageKey, Vector]
    ) -> bytes:
        new = [each for each in chunks if passage_key(each) not in known]
        texts = [passage_text(each.text, each.headings) for each in new]
        embedded = iter(await embedder.embed_passages(texts) if texts else ())
        found = [known.get(passage_key(each)) for each in chunks]
        return np.stack([next(embedded) if each is None else each for each in found]).tobytes()

    async def _stage_missing(self) -> None:
        """Stage passages that were swept, or that a fork has recorded but never staged.

        Passages that the document already has are not embedded again.
        """
        fields, _ = await self._call("staged")
        there = set(fields["ordinals"])
        if len(there) == len(self._chunks):
            return
        if fields["published"] and not there:
            return  # published, but the step was not recorded
        known = None if self._embedder is None else await self._known()
        missing = [each for each in self._chunks if each.ordinal not in there]
        for start in range(0, len(missing), BATCH):
            await self._stage(missing[start : start + BATCH], known)

    async def _known(self) -> dict[PassageKey, Vector]:
        fields, data = await self._call("known")
        keys = [(text, headings) for text, headings in fields["keys"]]
        return dict(zip(keys, unpack_vectors(data, len(keys)), strict=True)) if keys else {}

    async def _source(self) -> _Source:
        """Return the document's bytes as a local file, written on first use."""
        if self._source_file is None:
            self._source_file = await self._write_source()
        return self._source_file

    async def _write_source(self) -> _Source:
        request, path = self._request, self._folder / "source"
        if request.file is not None:
            return _Source(await self._ctx.file(request.file), request.name, request.media_type)
        if self._fetched is not None:
            await asyncio.to_thread(path.write_bytes, self._fetched.content)
            return _Source(path, file_name_of(self._fetched.url), self._fetched.media_type)
        await asyncio.to_thread(path.write_bytes, (request.text or "").encode())
        return _Source(path, request.name, request.media_type)


def _open_local_embedder() -> Embedder | None:
    """Open the offline embedder; return None if an endpoint embeds, which the service calls."""
    if os.environ.get(EMBEDDER, "").strip().lower() not in ("", EmbeddingSettings.embedder):
        return None
    try:
        return open_embedder(EmbeddingSettings())
    except ConfigurationError as error:
        raise Fail(error.code, str(error)) from None


def _read(source: _Source) -> Extracted:
    # Only the process of a document loads the parsers, not the API or the worker.
    try:
        from coatcheck.surfaces.ingest.readers import UnreadableDocument, read  # noqa: PLC0415
    except ModuleNotFoundError as error:
        message = f"reading documents needs {error.name}: run pip install 'coatcheck[ingest]'"
        raise Fail(ConfigurationError.code, message) from None
    try:
        return read(source.path, source.name, source.media_type)
    except UnreadableDocument as error:
        raise Fail(error.code, error.message) from None


def _digest(path: Path) -> tuple[str, int]:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size


@contextmanager
def _signals() -> Iterator[None]:
    """Retry without counting the attempt if the worker could not respond."""
    try:
        yield
    except StoreUnavailable as error:
        raise Retry(f"the worker did not respond: {error}", counts=False) from None


@contextmanager
def _redact_errors(code: str, message: str) -> Iterator[None]:
    """Replace errors that may quote the document."""
    try:
        yield
    except (CoatcheckError, HandlerSignal, MemoryError):
        raise  # these never contain the document's text
    except Exception as error:  # noqa: BLE001 - any error may quote the document
        log.error(message, extra={"error": type(error).__name__, "at": _location(error)})
        raise Fail(code, f"{message} ({type(error).__name__})") from None


def _location(error: BaseException) -> str:
    """Return the file and line where an error was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (
        "" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    )
