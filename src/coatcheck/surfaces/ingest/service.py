"""The worker's side of the pipeline: all that needs the index, a secret or the network.

A document is read in a confined process (job.py), which asks for the rest by name. A parser may
have been taken over by the document that it read, so a question is hostile: the tenant, the
collection, the name, the address and the version come from the job, never from the question. Such
a process can spoil the document of its own job, and reach no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter, ValidationError

from coatcheck.clock import SystemClock
from coatcheck.egress.policy import EgressPolicy
from coatcheck.errors import (
    ConfigurationError,
    Fail,
    HandlerSignal,
    InvalidInput,
    NotFound,
    Retry,
    StoreUnavailable,
)
from coatcheck.model.confinement import ServedJob
from coatcheck.surfaces.ingest.constants import BATCH
from coatcheck.surfaces.ingest.document import DocumentRequest, Ingested
from coatcheck.surfaces.ingest.embedding.base import Embedder, as_signals, passage_text
from coatcheck.surfaces.ingest.exchange import (
    Compared,
    Publication,
    pack,
    pack_signal,
    unpack,
    unpack_vectors,
)
from coatcheck.surfaces.ingest.fetch import fetch_document
from coatcheck.surfaces.ingest.index.base import (
    EmbedderMismatch,
    Index,
    NewDocument,
    PassageKey,
    StagedGone,
    Vector,
    Vectors,
    check_embedder,
    document_id,
)
from coatcheck.surfaces.ingest.index.staged import passage_key
from coatcheck.surfaces.ingest.opened import Opened
from coatcheck.surfaces.ingest.settings import IngestSettings
from coatcheck.surfaces.ingest.stages import Chunk

# Staged passages are removed after this long: their job does not come back.
SWEPT_AFTER_MS = 24 * 3_600_000
# Of one question: a batch of passages with their vectors is a fraction of it.
LARGEST_QUESTION = 32 * 1024 * 1024

_CHUNKS = TypeAdapter(list[Chunk])


class _Place(NamedTuple):
    """Where the document of a job belongs."""

    tenant: str
    id: str
    version: str
    asked: DocumentRequest


class DocumentService:
    """Answers what the processes of documents ask, on the worker's loop."""

    def __init__(self, opened: Opened, limits: IngestSettings) -> None:
        self._opened = opened
        self._limits = limits

    async def answer(self, job: ServedJob, name: str, body: bytes) -> bytes:
        """Answer a question of a job's process; a signal to the job is an answer, too."""
        if len(body) > LARGEST_QUESTION:
            raise InvalidInput(f"a question has at most {LARGEST_QUESTION} bytes")
        fields, data = unpack(body)
        asked = _asked(job.input)
        id_ = document_id(job.tenant, asked.collection, asked.name)
        place = _Place(job.tenant, id_, job.id, asked)
        try:
            with _signals():
                return await self._answer(place, name, fields, data)
        except ValidationError as error:
            raise InvalidInput("the question does not fit") from error
        except HandlerSignal as signal:
            return pack_signal(signal)

    async def _answer(self, place: _Place, name: str, fields: dict[str, Any], data: bytes) -> bytes:
        match name:
            case "fetch":
                return await self._fetch(place)
            case "compare":
                compared = await self._compare(place, Compared.model_validate(fields))
                return pack(compared.model_dump(mode="json"))
            case "stage":
                return await self._stage(place, fields, data)
            case "staged":
                return pack(await self._staged(place))
            case "known":
                return await self._known(place)
            case "publish":
                is_latest = await self._publish(place, Publication.model_validate(fields))
                return pack({"is_latest": is_latest})
        raise NotFound(f"documents have no service {name!r}")

    async def _fetch(self, place: _Place) -> bytes:
        if place.asked.url is None:
            raise NotFound("the document has no address")
        found = await fetch_document(
            place.asked.url,
            EgressPolicy(self._opened.settings.egress_allow),
            self._limits.fetch_bytes,
            self._limits.fetch_seconds,
        )
        fields = {"url": found.url, "media_type": found.media_type, "sha256": found.sha256}
        return pack(fields, found.content)

    async def _compare(self, place: _Place, found: Compared) -> Compared:
        index, embedder, asked = await self._index(), self._embedder(), place.asked
        there = await index.document(place.tenant, asked.collection, asked.name)
        if there is None or (there.sha256, there.embedder) != (found.sha256, embedder.name):
            collection = await index.collection(place.tenant, asked.collection)
            check_embedder(collection, embedder.name, await embedder.dimensions())
            return Compared(sha256=found.sha256, size=found.size)
        if dict(there.metadata) != asked.metadata:
            await index.describe(place.tenant, there.id, asked.metadata)
        same = Ingested(
            document_id=there.id,
            collection=there.collection,
            name=there.name,
            title=there.title,
            format=there.format,
            language=there.language,
            sha256=found.sha256,
            size=found.size,
            passages=there.passages,
            unchanged=True,
        )
        return Compared(sha256=found.sha256, size=found.size, there=same)

    async def _stage(self, place: _Place, fields: Mapping[str, Any], data: bytes) -> bytes:
        chunks = _CHUNKS.validate_python(fields.get("chunks"))
        if not 1 <= len(chunks) <= BATCH:
            raise InvalidInput(f"1 to {BATCH} passages are staged at a time")
        if data:
            vectors = unpack_vectors(data, len(chunks))
        else:
            vectors = await self._embed(place, chunks, reuse=bool(fields.get("reuse")))
        now = SystemClock().now()
        index = await self._index()
        await index.stage(place.tenant, place.id, place.version, chunks, vectors, now)
        return pack({"staged": len(chunks)})

    async def _embed(self, place: _Place, chunks: list[Chunk], *, reuse: bool) -> Vectors:
        known = await self._vectors(place) if reuse else {}
        new = [each for each in chunks if passage_key(each) not in known]
        texts = [passage_text(each.text, each.headings) for each in new]
        embedded = iter(await self._embedder().embed_passages(texts) if texts else ())
        found = (known.get(passage_key(each)) for each in chunks)
        return np.stack([next(embedded) if each is None else each for each in found])

    async def _staged(self, place: _Place) -> dict[str, Any]:
        index = await self._index()
        there = await index.staged(place.tenant, place.id, place.version)
        row = await index.document_by_id(place.tenant, place.id)
        return {
            "ordinals": sorted(there),
            "published": row is not None and row.version == place.version,
        }

    async def _known(self, place: _Place) -> bytes:
        """Answer with the vectors that the document has: these texts are not embedded again."""
        known = await self._vectors(place)
        rows = b"".join(vector.astype(np.float32).tobytes() for vector in known.values())
        return pack({"keys": list(known)}, rows)

    async def _vectors(self, place: _Place) -> dict[PassageKey, Vector]:
        index = await self._index()
        row = await index.document_by_id(place.tenant, place.id)
        if row is None or row.embedder != self._embedder().name:
            return {}
        return await index.vectors(place.tenant, place.id)

    async def _publish(self, place: _Place, found: Publication) -> bool:
        index, embedder, asked = await self._index(), self._embedder(), place.asked
        now = SystemClock().now()
        document = NewDocument(
            tenant=place.tenant,
            id=place.id,
            collection=asked.collection,
            name=asked.name,
            title=found.title,
            format=found.format,
            language=found.language,
            sha256=found.sha256,
            size=found.size,
            embedder=embedder.name,
            dimensions=await embedder.dimensions(),
            metadata=asked.metadata,
        )
        is_latest = await index.publish(document, place.version, found.passages, now)
        if not is_latest:
            await index.discard(place.tenant, place.id, place.version)
        await index.sweep(now - SWEPT_AFTER_MS)
        return is_latest

    async def _index(self) -> Index:
        with _as_failures():
            return await self._opened.index()

    def _embedder(self) -> Embedder:
        with _as_failures():
            return self._opened.embedder()


@lru_cache(8)
def _asked(text: str) -> DocumentRequest:
    return DocumentRequest.model_validate_json(text)


@contextmanager
def _as_failures() -> Iterator[None]:
    """Fail a job for a setting that makes no sense: coming back does not help it."""
    try:
        yield
    except StoreUnavailable as error:
        if isinstance(error.__cause__, ConfigurationError):
            raise Fail(error.__cause__.code, str(error)) from None
        raise


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
