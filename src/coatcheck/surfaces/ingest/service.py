"""The worker's side of the pipeline: everything that needs the index, a secret or the network.

A document is read in a sandboxed process (job.py), which calls this service by name. A document may
have exploited its parser, so every request is hostile: the tenant, the collection, the name, the
URL and the version come from the job, never from the request. Such a process can corrupt the
document of its own job and reach no other.
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
from coatcheck.surfaces.ingest.document import Chunk, DocumentRequest, Ingested
from coatcheck.surfaces.ingest.embedding.base import (
    Embedder,
    embedder_errors_as_signals,
    passage_text,
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
from coatcheck.surfaces.ingest.index.passages import passage_key
from coatcheck.surfaces.ingest.messages import (
    Comparison,
    Publication,
    pack,
    pack_signal,
    unpack,
    unpack_vectors,
)
from coatcheck.surfaces.ingest.resources import IngestResources
from coatcheck.surfaces.ingest.settings import IngestSettings

# Staged passages older than this are deleted: their job will not resume.
STAGED_TTL_MS = 24 * 3_600_000
# A batch of passages with its vectors is a fraction of this.
MAX_REQUEST_BYTES = 32 * 1024 * 1024

_CHUNKS = TypeAdapter(list[Chunk])


class _DocumentRef(NamedTuple):
    """The identity of a job's document in the index."""

    tenant: str
    id: str
    version: str
    request: DocumentRequest


class DocumentService:
    """Serves the processes that read documents, on the worker's event loop."""

    def __init__(self, resources: IngestResources, limits: IngestSettings) -> None:
        self._resources = resources
        self._limits = limits

    async def handle(self, job: ServedJob, name: str, body: bytes) -> bytes:
        """Serve one request of a job's process; a signal to the job is a response, too."""
        if len(body) > MAX_REQUEST_BYTES:
            raise InvalidInput(f"a request must have at most {MAX_REQUEST_BYTES} bytes")
        fields, data = unpack(body)
        request = _parse_request(job.input)
        id_ = document_id(job.tenant, request.collection, request.name)
        ref = _DocumentRef(job.tenant, id_, job.id, request)
        try:
            with _signals():
                return await self._dispatch(ref, name, fields, data)
        except ValidationError as error:
            raise InvalidInput("the request is invalid") from error
        except HandlerSignal as signal:
            return pack_signal(signal)

    async def _dispatch(
        self, ref: _DocumentRef, name: str, fields: dict[str, Any], data: bytes
    ) -> bytes:
        match name:
            case "fetch":
                return await self._fetch(ref)
            case "compare":
                compared = await self._compare(ref, Comparison.model_validate(fields))
                return pack(compared.model_dump(mode="json"))
            case "stage":
                return await self._stage(ref, fields, data)
            case "staged":
                return pack(await self._staged(ref))
            case "known":
                return await self._known(ref)
            case "publish":
                is_latest = await self._publish(ref, Publication.model_validate(fields))
                return pack({"is_latest": is_latest})
        raise NotFound(f"documents have no service {name!r}")

    async def _fetch(self, ref: _DocumentRef) -> bytes:
        if ref.request.url is None:
            raise NotFound("the document has no URL")
        found = await fetch_document(
            ref.request.url,
            EgressPolicy(self._resources.settings.egress_allow),
            self._limits.fetch_bytes,
            self._limits.fetch_seconds,
        )
        fields = {"url": found.url, "media_type": found.media_type, "sha256": found.sha256}
        return pack(fields, found.content)

    async def _compare(self, ref: _DocumentRef, found: Comparison) -> Comparison:
        index, embedder, request = await self._index(), self._embedder(), ref.request
        there = await index.document(ref.tenant, request.collection, request.name)
        if there is None or (there.sha256, there.embedder) != (found.sha256, embedder.name):
            collection = await index.collection(ref.tenant, request.collection)
            check_embedder(collection, embedder.name, await embedder.dimensions())
            return Comparison(sha256=found.sha256, size=found.size)
        if dict(there.metadata) != request.metadata:
            await index.update_metadata(ref.tenant, there.id, request.metadata)
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
        return Comparison(sha256=found.sha256, size=found.size, there=same)

    async def _stage(self, ref: _DocumentRef, fields: Mapping[str, Any], data: bytes) -> bytes:
        chunks = _CHUNKS.validate_python(fields.get("chunks"))
        if not 1 <= len(chunks) <= BATCH:
            raise InvalidInput(f"a request must stage 1 to {BATCH} passages")
        if data:
            vectors = unpack_vectors(data, len(chunks))
        else:
            vectors = await self._embed(ref, chunks, reuse=bool(fields.get("reuse")))
        now = SystemClock().now()
        index = await self._index()
        await index.stage(ref.tenant, ref.id, ref.version, chunks, vectors, now)
        return pack({"staged": len(chunks)})

    async def _embed(self, ref: _DocumentRef, chunks: list[Chunk], *, reuse: bool) -> Vectors:
        known = await self._vectors(ref) if reuse else {}
        new = [each for each in chunks if passage_key(each) not in known]
        texts = [passage_text(each.text, each.headings) for each in new]
        embedded = iter(await self._embedder().embed_passages(texts) if texts else ())
        found = (known.get(passage_key(each)) for each in chunks)
        return np.stack([next(embedded) if each is None else each for each in found])

    async def _staged(self, ref: _DocumentRef) -> dict[str, Any]:
        index = await self._index()
        there = await index.staged(ref.tenant, ref.id, ref.version)
        row = await index.document_by_id(ref.tenant, ref.id)
        return {
            "ordinals": sorted(there),
            "published": row is not None and row.version == ref.version,
        }

    async def _known(self, ref: _DocumentRef) -> bytes:
        """Return the published document's vectors, so equal passages are not embedded again."""
        known = await self._vectors(ref)
        rows = b"".join(vector.astype(np.float32).tobytes() for vector in known.values())
        return pack({"keys": list(known)}, rows)

    async def _vectors(self, ref: _DocumentRef) -> dict[PassageKey, Vector]:
        index = await self._index()
        row = await index.document_by_id(ref.tenant, ref.id)
        if row is None or row.embedder != self._embedder().name:
            return {}
        return await index.vectors(ref.tenant, ref.id)

    async def _publish(self, ref: _DocumentRef, found: Publication) -> bool:
        index, embedder, request = await self._index(), self._embedder(), ref.request
        now = SystemClock().now()
        document = NewDocument(
            tenant=ref.tenant,
            id=ref.id,
            collection=request.collection,
            name=request.name,
            title=found.title,
            format=found.format,
            language=found.language,
            sha256=found.sha256,
            size=found.size,
            embedder=embedder.name,
            dimensions=await embedder.dimensions(),
            metadata=request.metadata,
        )
        is_latest = await index.publish(document, ref.version, found.passages, now)
        if not is_latest:
            await index.discard(ref.tenant, ref.id, ref.version)
        await index.sweep(now - STAGED_TTL_MS)
        return is_latest

    async def _index(self) -> Index:
        with _fail_if_misconfigured():
            return await self._resources.index()

    def _embedder(self) -> Embedder:
        with _fail_if_misconfigured():
            return self._resources.embedder()


@lru_cache(8)
def _parse_request(text: str) -> DocumentRequest:
    return DocumentRequest.model_validate_json(text)


@contextmanager
def _fail_if_misconfigured() -> Iterator[None]:
    """Fail the job if the settings are invalid: a retry would not help."""
    try:
        yield
    except StoreUnavailable as error:
        if isinstance(error.__cause__, ConfigurationError):
            raise Fail(error.__cause__.code, str(error)) from None
        raise


@contextmanager
def _signals() -> Iterator[None]:
    """Translate errors of the embedder and the index into signals to the job."""
    try:
        with embedder_errors_as_signals():
            yield
    except EmbedderMismatch as error:
        raise Fail(error.code, str(error)) from None
    except StoreUnavailable as error:
        raise Retry(f"the index is not available: {error}", counts=False) from None
    except StagedGone as error:
        raise Retry(str(error)) from None
