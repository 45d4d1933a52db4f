"""Relayed calls as stored: the request as a job's input, the response as its result."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from coatcheck.model.internal import Internal
from coatcheck.model.upload import Upload
from coatcheck.relay.headers import Pairs

# A body up to this size is stored inline; in base64 that is well below the limit of a row.
INLINE_BODY = 32 * 1024
# The artifact that holds a larger response body.
BODY = "body"

# No character that could end a header or start another one.
HeaderName = Annotated[str, StringConstraints(pattern=r"^[0-9a-z!#$%&'*+.^_`|~-]+$")]
HeaderValue = Annotated[str, StringConstraints(pattern=r"^[\t\x20-\x7e\x80-\xff]*$")]


def _drop_legacy_socket(value: Any) -> Any:
    # Earlier versions stored an object here. The process that waited has ended since.
    return None if isinstance(value, dict) else value


SocketName = Annotated[str, StringConstraints(pattern="^[0-9a-f]{32}$")]


class InlineBody(BaseModel):
    """A small body: text if it is valid UTF-8, otherwise base64."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str = ""
    encoding: Literal["utf-8", "base64"] = "utf-8"

    @classmethod
    def of(cls, content: bytes) -> InlineBody:
        """Encode bytes."""
        try:
            text = content.decode()
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:  # PostgreSQL does not store NUL in text
            return cls(text=base64.b64encode(content).decode(), encoding="base64")
        return cls(text=text)

    @property
    def content(self) -> bytes:
        """The decoded bytes."""
        return base64.b64decode(self.text) if self.encoding == "base64" else self.text.encode()


class StoredCall(BaseModel):
    """A request, as the input of a job. If a client submitted the job itself, the internal fields
    are empty: the call is made without credentials, and no caller waits for the response.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: str = Field(pattern="^[A-Z]{1,20}$")
    # With the query, as it was written: /reports/a%2Fb?year=2026. No fragment: a client does not
    # send the part after a #, so the call would go to another path than the one that was checked.
    path: str = Field(pattern=r"^/[!-\"$-~]*$", max_length=65_536)
    headers: Sequence[tuple[HeaderName, HeaderValue]] = ()
    body: InlineBody | None = None
    upload: Upload | None = None  # a body that is not small
    size: int = Field(default=0, ge=0)  # of the body
    # The caller's idempotency key; if there is none, the upstream gets the job's id.
    idempotency_key: HeaderValue | None = None
    # Credential headers, encrypted for this job alone (relay/credentials.py).
    credentials: Internal[str | None] = None
    # The mark of the caller's credential: the response is encrypted, and only for this caller.
    owner: Internal[str | None] = None
    # Earlier versions stored only whether there is an owner.
    owned: Internal[bool] = False
    # The name of the socket on which the caller's process waits. A worker connects to it with a
    # token made of the job's id and a key outside the database (relay/socket_folder.py).
    line: Internal[Annotated[SocketName | None, BeforeValidator(_drop_legacy_socket)]] = None

    @property
    def is_owned(self) -> bool:
        """Whether the response is for one caller only."""
        return self.owner is not None or self.owned


class StoredResponse(BaseModel):
    """A response, as the result of a job."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: int
    headers: Sequence[tuple[str, str]] = ()
    size: int = 0
    body: InlineBody | None = None  # None: empty, encrypted, or the artifact `body`
    artifact: bool = False
    sealed: str | None = None  # an `EncryptedPart` as JSON, encrypted


class EncryptedPart(BaseModel):
    """The part of a response that is stored encrypted."""

    headers: Sequence[tuple[str, str]] = ()
    body: InlineBody | None = None


class ResponseHead(NamedTuple):
    """The status and headers of a response."""

    status: int
    headers: Pairs
