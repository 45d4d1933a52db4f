"""Taking a request in: what of it is kept, and how."""

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
    for_upstream,
    pairs_of,
    split,
)

LARGEST_BODY = LARGEST_ARTIFACT
_PRINTABLE = frozenset(map(chr, range(0x21, 0x7F)))


@dataclass(frozen=True, slots=True)
class IntakeOptions:
    """What a door keeps of the requests it takes in."""

    name: str  # the kind's: what is sealed is bound to it
    headers: frozenset[str] | None = None  # in lower case; None: all that may be passed on
    credentials: Literal["seal", "drop"] = "seal"
    # Headers that are credentials, beside those that always are.
    secret: frozenset[str] = frozenset()
    largest_body: int = LARGEST_BODY

    @property
    def owner_names(self) -> Sequence[str]:
        """The headers that an owner is told by: the first that is there counts."""
        return (*CREDENTIALS, *sorted(self.secret))

    @property
    def credential_names(self) -> Collection[str]:
        """The headers that are credentials here."""
        return {*self.owner_names, *MORE_CREDENTIALS}


class StoredRequest(NamedTuple):
    """A request that was taken in and is not a job yet."""

    tenant: str
    kind: str
    call: StoredCall  # without its internal fields
    secret: Pairs  # headers that are credentials, in clear
    labels: dict[str, str]  # for the job: who may have its answer
    fingerprint: list[str]  # what has to be the same for it to be the same request again

    def submission(
        self, secrecy: CallEncryption, job_id: str, line: str | None = None
    ) -> Submission:
        """Return the job that it becomes, under this id; `line` is the socket of the process in
        which the caller waits.
        """
        owner = self.labels.get(OWNER)
        sealed = secrecy.encrypt(self.secret, Binding(self.tenant, self.kind, job_id, owner))
        internal = {"credentials": sealed, "owner": owner, "line": line}
        return Submission(
            self.kind,
            self.call.model_copy(update=internal).model_dump_json(),
            labels=self.labels,
            tenant=self.tenant,
            job_id=job_id,
            trusted=True,
        )


async def take(
    request: Request,
    engine: Engine,
    tenant: str,
    keeps: IntakeOptions,
    secrecy: CallEncryption,
    *,
    path: str | None = None,
    content: bytes | None = None,
) -> StoredRequest:
    """Read a request; raises the 4xx that fits what is wrong with it. With a `path` or a `content`
    these take the place of its own, which is not read then.
    """
    asked = path or _path_of(request)
    key = read_key(request)
    pairs = headers_of(request, engine)
    clear, secret = split(for_upstream(pairs, keeps.headers), keeps.credential_names)
    # Whoever has a credential owns the answer, even where the upstream is not told of it.
    owner = secrecy.owner_of(pairs, keeps.owner_names)
    try:
        call = StoredCall(method=request.method, path=asked, headers=clear, idempotency_key=key)
    except ValidationError:
        raise HTTPException(400, "the path or a header is not one that can be handed on") from None
    body, upload, size, sha256 = await _body(request, engine, tenant, keeps, content)
    call = call.model_copy(update={"body": body, "upload": upload, "size": size})
    labels = {} if owner is None else {OWNER: owner}
    handed_on = secret if keeps.credentials == "seal" else []
    fingerprint = [request.method, asked, sha256]
    return StoredRequest(tenant, keeps.name, call, handed_on, labels, fingerprint)


async def give_up(engine: Engine, taken: StoredRequest) -> None:
    """Remove what was taken in for a request that became no job; what fails is left to the sweep,
    which comes for uploads that no job has taken over.
    """
    if taken.call.upload is not None:
        with contextlib.suppress(NotFound, StoreError):
            await engine.uploads.delete(taken.call.upload.upload, taken.tenant)


def headers_of(request: Request, engine: Engine) -> Pairs:
    """Return a request's headers without the key to this server, where it needs one."""
    raw = request.scope["headers"]
    token = token_of(dict(raw)) if engine.authenticator.needs_key else None
    pairs = pairs_of(raw)
    if token is None:
        return pairs
    ours = token.decode("latin-1")
    return [
        (name, value)
        for name, value in pairs
        if not (
            (name == "x-api-key" and value == ours)
            or (name == "authorization" and value[7:].strip() == ours)
        )
    ]


def _path_of(request: Request) -> str:
    scope = request.scope
    raw = scope.get("raw_path") or scope["path"].encode()
    query = scope["query_string"]
    path: str = (raw + b"?" + query if query else raw).decode("latin-1")
    if not _PRINTABLE.issuperset(path):
        raise HTTPException(400, "the path has characters that have to be percent-encoded")
    if leads_elsewhere(scope["path"]):
        raise HTTPException(400, "the path has a segment that leads elsewhere: . or ..")
    return path


def leads_elsewhere(path: str) -> bool:
    """Tell whether a decoded path has what the other end may take for a way up, out of what was
    asked for here.
    """
    segments = path.replace("\\", "/").split("/")
    return any(segment.partition(";")[0] in (".", "..") for segment in segments)


async def _body(
    request: Request, engine: Engine, tenant: str, keeps: IntakeOptions, content: bytes | None
) -> tuple[InlineBody | None, Upload | None, int, str]:
    if content is None:
        check_declared_length(request, keeps.largest_body)
        begun, rest = await _beginning(stream_body(request))
    else:
        begun, rest = content, None
    if rest is not None or len(begun) > INLINE_BODY:
        pieces = _joined(begun, rest)
        try:
            taken = await engine.uploads.receive(pieces, tenant=tenant, limit=keeps.largest_body)
        except TooLarge:
            raise body_too_large(keeps.largest_body) from None
        stored = taken.upload
        return None, Upload(upload=stored.id), stored.size, stored.sha256
    sha256 = hashlib.sha256(begun).hexdigest()
    return (InlineBody.of(begun) if begun else None), None, len(begun), sha256


async def _beginning(
    pieces: AsyncIterator[bytes],
) -> tuple[bytes, AsyncIterator[bytes] | None]:
    """Return a body's beginning, and the rest where it is not small."""
    begun = bytearray()
    async for piece in pieces:
        begun += piece
        if len(begun) > INLINE_BODY:
            return bytes(begun), pieces
    return bytes(begun), None


async def _joined(begun: bytes, rest: AsyncIterator[bytes] | None) -> AsyncIterator[bytes]:
    yield begun
    if rest is not None:
        async for piece in rest:
            yield piece
