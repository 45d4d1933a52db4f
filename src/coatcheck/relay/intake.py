"""Storing a caller's request: which parts are stored, and how."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request

from coatcheck.engine.engine import Engine
from coatcheck.engine.payloads.payloads import LARGEST_ARTIFACT
from coatcheck.engine.submit.submission import Submission
from coatcheck.errors import NotFound, StoreError, TooLarge
from coatcheck.http.auth.caller import token_of
from coatcheck.http.request.body import body_too_large, check_declared_length, stream_body
from coatcheck.http.request.idempotency import read_key
from coatcheck.model.upload import Upload
from coatcheck.relay.call import INLINE_BODY, InlineBody, StoredCall
from coatcheck.relay.credentials import OWNER, Binding, CallEncryption
from coatcheck.relay.headers import (
    CREDENTIALS,
    MORE_CREDENTIALS,
    Pairs,
    decode_headers,
    headers_to_forward,
    split_headers,
)

MAX_BODY = LARGEST_ARTIFACT
_PRINTABLE = frozenset(map(chr, range(0x21, 0x7F)))


@dataclass(frozen=True, slots=True)
class IntakeOptions:
    """The parts of a request that an entry point stores."""

    name: str  # the kind, to which encrypted text is bound
    headers: frozenset[str] | None = None  # in lower case; None: all that may be forwarded
    credentials: Literal["seal", "drop"] = "seal"
    # Credential headers beyond the well-known ones.
    secret: frozenset[str] = frozenset()
    max_body: int = MAX_BODY

    @property
    def owner_names(self) -> Sequence[str]:
        """The headers that identify an owner: the first one present counts."""
        return (*CREDENTIALS, *sorted(self.secret))

    @property
    def credential_names(self) -> Collection[str]:
        """The headers that are credentials here."""
        return {*self.owner_names, *MORE_CREDENTIALS}


class StoredRequest(NamedTuple):
    """A request that is stored but is not a job yet."""

    tenant: str
    kind: str
    call: StoredCall  # without its internal fields
    secret: Pairs  # credential headers, in clear
    labels: dict[str, str]  # for the job: the owner of its response
    fingerprint: list[str]  # equal for a repeated request

    def to_submission(
        self, encryption: CallEncryption, job_id: str, socket: str | None = None
    ) -> Submission:
        """Return the submission of its job, with this id. `socket` names the socket of the process
        in which the caller waits.
        """
        owner = self.labels.get(OWNER)
        binding = Binding(self.tenant, self.kind, job_id, owner)
        credentials = encryption.encrypt_headers(self.secret, binding)
        internal = {"credentials": credentials, "owner": owner, "line": socket}
        return Submission(
            self.kind,
            self.call.model_copy(update=internal).model_dump_json(),
            labels=self.labels,
            tenant=self.tenant,
            job_id=job_id,
            trusted=True,
        )


async def store_request(
    request: Request,
    engine: Engine,
    tenant: str,
    options: IntakeOptions,
    encryption: CallEncryption,
    *,
    path: str | None = None,
    content: bytes | None = None,
) -> StoredRequest:
    """Store a request; raises the 4xx that fits. `path` and `content` replace the request's own
    path and body, which is then not read.
    """
    call_path = path or _read_path(request)
    key = read_key(request)
    pairs = caller_headers(request, engine)
    clear, secret = split_headers(
        headers_to_forward(pairs, options.headers), options.credential_names
    )
    # A caller with a credential owns the response, even if the upstream does not get it.
    owner = encryption.mark_owner(pairs, options.owner_names)
    try:
        call = StoredCall(method=request.method, path=call_path, headers=clear, idempotency_key=key)
    except ValidationError:
        raise HTTPException(400, "the path or a header cannot be forwarded") from None
    body, upload, size, sha256 = await _store_body(request, engine, tenant, options, content)
    call = call.model_copy(update={"body": body, "upload": upload, "size": size})
    labels = {} if owner is None else {OWNER: owner}
    forwarded = secret if options.credentials == "seal" else []
    fingerprint = [request.method, call_path, sha256]
    return StoredRequest(tenant, options.name, call, forwarded, labels, fingerprint)


async def discard_request(engine: Engine, stored: StoredRequest) -> None:
    """Delete the upload of a request that became no job. If that fails, the sweep deletes it later,
    as any upload that no job uses.
    """
    if stored.call.upload is not None:
        with contextlib.suppress(NotFound, StoreError):
            await engine.uploads.delete(stored.call.upload.upload, stored.tenant)


def caller_headers(request: Request, engine: Engine) -> Pairs:
    """Return a request's headers without the key to this server, if it needs one."""
    raw = request.scope["headers"]
    token = token_of(dict(raw)) if engine.authenticator.needs_key else None
    pairs = decode_headers(raw)
    if token is None:
        return pairs
    own_key = token.decode("latin-1")
    return [
        (name, value)
        for name, value in pairs
        if not (
            (name == "x-api-key" and value == own_key)
            or (name == "authorization" and value[7:].strip() == own_key)
        )
    ]


def _read_path(request: Request) -> str:
    scope = request.scope
    raw = scope.get("raw_path") or scope["path"].encode()
    query = scope["query_string"]
    path: str = (raw + b"?" + query if query else raw).decode("latin-1")
    if not _PRINTABLE.issuperset(path):
        raise HTTPException(400, "the path has characters that must be percent-encoded")
    if has_dot_segment(scope["path"]):
        raise HTTPException(400, "the path has a dot segment: . or ..")
    return path


def has_dot_segment(path: str) -> bool:
    """Return whether a decoded path has a segment that the upstream may resolve to another path
    than the one that was checked.
    """
    segments = path.replace("\\", "/").split("/")
    return any(segment.partition(";")[0] in (".", "..") for segment in segments)


async def _store_body(
    request: Request, engine: Engine, tenant: str, options: IntakeOptions, content: bytes | None
) -> tuple[InlineBody | None, Upload | None, int, str]:
    if content is None:
        check_declared_length(request, options.max_body)
        start, rest = await _read_start(stream_body(request))
    else:
        start, rest = content, None
    if rest is not None or len(start) > INLINE_BODY:
        pieces = _join(start, rest)
        try:
            received = await engine.uploads.receive(pieces, tenant=tenant, limit=options.max_body)
        except TooLarge:
            raise body_too_large(options.max_body) from None
        upload = received.upload
        return None, Upload(upload=upload.id), upload.size, upload.sha256
    sha256 = hashlib.sha256(start).hexdigest()
    return (InlineBody.of(start) if start else None), None, len(start), sha256


async def _read_start(
    pieces: AsyncIterator[bytes],
) -> tuple[bytes, AsyncIterator[bytes] | None]:
    """Return the start of a body, and an iterator over the rest if the body is not small."""
    start = bytearray()
    async for piece in pieces:
        start += piece
        if len(start) > INLINE_BODY:
            return bytes(start), pieces
    return bytes(start), None


async def _join(start: bytes, rest: AsyncIterator[bytes] | None) -> AsyncIterator[bytes]:
    yield start
    if rest is not None:
        async for piece in rest:
            yield piece
