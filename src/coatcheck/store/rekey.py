"""The part of a store that lets what it keeps be sealed anew, under another key.

The store knows in which columns there may be sealed texts, and nothing of keys. Whoever does the
sealing reads some of them at a time, in the order of their tables' keys, and has each written over
the very text that was read: what somebody else has written meanwhile stays. So this can be done
beside servers and workers, in slices, and broken off at any moment: what is done is not found
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from coatcheck.model.payload import BlobName

Key = tuple[Any, ...]


class EncryptedColumn(NamedTuple):
    """A column that may hold sealed texts; the first column of its table's key is the tenant."""

    table: str
    key: tuple[str, ...]
    column: str
    beside: tuple[str, ...] = ()  # what else is read with it
    # A text that is not sealed as a whole may be a JSON object with these members sealed (of
    # events: the entries of progress alone).
    members: tuple[str, ...] = ()


class StoredText(NamedTuple):
    """A text that is kept: under which key, and what stands beside it."""

    key: Key
    text: str
    beside: tuple[Any, ...] = ()


class TextChange(NamedTuple):
    """What is to be written in place of a text."""

    key: Key
    old: str
    new: str


_JOB = ("tenant", "job_id")
_OF_ERRORS = ("message", "detail")
_OF_PROGRESS = ("message",)

# These are sealed always, also where nothing else is: see `store/encrypted_secrets.py`.
SECRETS = EncryptedColumn("webhook_secrets", ("tenant", "endpoint", "value"), "value")

# Where both stores have the same tables.
COMMON = (
    EncryptedColumn("jobs", ("tenant", "id"), "error", members=_OF_ERRORS),
    EncryptedColumn("jobs", ("tenant", "id"), "progress", members=_OF_PROGRESS),
    EncryptedColumn("events", (*_JOB, "seq"), "data", ("type",), members=_OF_PROGRESS),
    EncryptedColumn("steps", (*_JOB, "seq"), "result"),
    EncryptedColumn("steps", (*_JOB, "seq"), "error", members=_OF_ERRORS),
    EncryptedColumn("artifacts", (*_JOB, "name"), "content"),
    EncryptedColumn("messages", (*_JOB, "name", "number"), "data", ("key",)),
    EncryptedColumn("schedules", ("tenant", "name"), "input"),
    EncryptedColumn("records", ("tenant", "collection", "key"), "value"),
    SECRETS,
)


class RekeyStore(Protocol):
    """What sealing anew asks of a store."""

    @property
    def places(self) -> Sequence[EncryptedColumn]:
        """Where sealed texts may be."""
        ...

    async def texts(
        self, place: EncryptedColumn, having: str, lacking: str, after: Key | None, limit: int
    ) -> list[StoredText]:
        """Read texts that have one word in them and not another, in order from behind a key."""
        ...

    async def replace_texts(self, place: EncryptedColumn, changes: Sequence[TextChange]) -> int:
        """Write texts over those that were read, where these are still there; return how many."""
        ...

    async def blobs_after(self, after: BlobName | None, limit: int) -> list[BlobName]:
        """List blobs that are not being removed, in order."""
        ...

    async def has_blob(self, blob: BlobName) -> bool:
        """Tell whether a blob is there and not being removed; also one of nobody's that a job has
        taken over since.
        """
        ...
