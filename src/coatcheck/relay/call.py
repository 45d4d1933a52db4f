"""A call as it is kept: the request as a job's input, the answer as its result."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from coatcheck.model.internal import Internal
from coatcheck.model.upload import Upload
from coatcheck.relay.headers import Pairs

# A body up to this size is kept with the rest; in base64 that is well below what a row holds.
INLINE_BODY = 32 * 1024
# A larger one is a file of the job's under this name.
BODY = "body"

# What could be taken for the end of a header, or for another one, is in none.
HeaderName = Annotated[str, StringConstraints(pattern=r"^[0-9a-z!#$%&'*+.^_`|~-]+$")]
HeaderValue = Annotated[str, StringConstraints(pattern=r"^[\t\x20-\x7e\x80-\xff]*$")]


def _socket_name(value: Any) -> Any:
    # Earlier versions kept a socket and a ticket here. The process that waited is gone since then.
    return None if isinstance(value, dict) else value


SocketName = Annotated[str, StringConstraints(pattern="^[0-9a-f]{32}$")]


class InlineBody(BaseModel):
    """A small body: as text where it is one, else in base64."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str = ""
    encoding: Literal["utf-8", "base64"] = "utf-8"

    @classmethod
    def of(cls, content: bytes) -> InlineBody:
        """Keep these bytes."""
        try:
            text = content.decode()
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:  # which not every database takes
            return cls(text=base64.b64encode(content).decode(), encoding="base64")
        return cls(text=text)

    @property
    def content(self) -> bytes:
        """The bytes."""
        return base64.b64decode(self.text) if self.encoding == "base64" else self.text.encode()


class StoredCall(BaseModel):
    """A request, as the input of a job. One that a client has submitted as a job has no internal
    fields: the call is made without credentials, and nobody waits for its answer.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: str = Field(pattern="^[A-Z]{1,20}$")
    # With the query, as it was written: /reports/a%2Fb?year=2026. No fragment: what follows a # is
    # not sent, so the call would go to another path than the one that was checked.
    path: str = Field(pattern=r"^/[!-\"$-~]*$", max_length=65_536)
    headers: Sequence[tuple[HeaderName, HeaderValue]] = ()
    body: InlineBody | None = None
    upload: Upload | None = None  # a body that is not small
    size: int = Field(default=0, ge=0)  # of the body
    # What the caller has named this request; else the job's id does.
    idempotency_key: HeaderValue | None = None
    # Headers that are credentials, encrypted for this job alone (relay/credentials.py).
    credentials: Internal[str | None] = None
    # The mark of the caller's credential: the answer is for nobody else, and encrypted.
    owner: Internal[str | None] = None
    # Earlier versions said only whether there is an owner.
    owned: Internal[bool] = False
    # The socket of the process in which the caller waits. It is dialled with a ticket that is made
    # from the job's id and a key outside of the database (relay/socket_folder.py).
    line: Internal[Annotated[SocketName | None, BeforeValidator(_socket_name)]] = None

    @property
    def is_owned(self) -> bool:
        """Whether the answer is for one caller only."""
        return self.owner is not None or self.owned


class StoredResponse(BaseModel):
    """An answer, as the result of a job."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: int
    headers: Sequence[tuple[str, str]] = ()
    size: int = 0
    body: InlineBody | None = None  # None: empty, sealed, or the artifact `body`
    artifact: bool = False
    sealed: str | None = None  # a `EncryptedPart`, as JSON


class EncryptedPart(BaseModel):
    """The part of an answer that is kept sealed."""

    headers: Sequence[tuple[str, str]] = ()
    body: InlineBody | None = None


class ResponseHead(NamedTuple):
    """How an answer begins."""

    status: int
    headers: Pairs
