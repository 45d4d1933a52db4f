"""The rekey part of a store: read and replace encrypted texts when the key changes.

The store lists the columns that may hold encrypted texts; it has no keys. The caller reads texts in
slices, in the order of each table's key, and replaces each one only if it is still the text that
was read. So a rekey runs beside servers and workers and may stop at any time: finished texts are
not found again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from coatcheck.model.payload import BlobName

RowKey = tuple[Any, ...]


class EncryptedColumn(NamedTuple):
    """A column that may hold encrypted texts. The first column of `key` is the tenant."""

    table: str
    key: tuple[str, ...]
    column: str
    beside: tuple[str, ...] = ()  # other columns that are read with it
    # A text that is not encrypted as a whole may be a JSON object with these members encrypted (of
    # events: entries of the type PROGRESS only).
    members: tuple[str, ...] = ()


class StoredText(NamedTuple):
    """A stored text, the key of its row, and the columns read beside it."""

    key: RowKey
    text: str
    beside: tuple[Any, ...] = ()


class TextChange(NamedTuple):
    """A text to replace, and its replacement."""

    key: RowKey
    old: str
    new: str


_JOB = ("tenant", "job_id")
_ERROR_MEMBERS = ("message", "detail")
_PROGRESS_MEMBERS = ("message",)

# Webhook secrets are encrypted even without encryption keys: see `store/encrypted/secrets.py`.
SECRETS = EncryptedColumn("webhook_secrets", ("tenant", "endpoint", "value"), "value")

# The columns that both stores have.
COMMON = (
    EncryptedColumn("jobs", ("tenant", "id"), "error", members=_ERROR_MEMBERS),
    EncryptedColumn("jobs", ("tenant", "id"), "progress", members=_PROGRESS_MEMBERS),
    EncryptedColumn("events", (*_JOB, "seq"), "data", ("type",), members=_PROGRESS_MEMBERS),
    EncryptedColumn("steps", (*_JOB, "seq"), "result"),
    EncryptedColumn("steps", (*_JOB, "seq"), "error", members=_ERROR_MEMBERS),
    EncryptedColumn("artifacts", (*_JOB, "name"), "content"),
    EncryptedColumn("messages", (*_JOB, "name", "number"), "data", ("key",)),
    EncryptedColumn("schedules", ("tenant", "name"), "input"),
    EncryptedColumn("records", ("tenant", "collection", "key"), "value"),
    SECRETS,
)


class RekeyStore(Protocol):
    """The verbs of a rekey."""

    @property
    def columns(self) -> Sequence[EncryptedColumn]:
        """The columns that may hold encrypted texts."""
        ...

    async def find_texts(
        self, column: EncryptedColumn, having: str, lacking: str, after: RowKey | None, limit: int
    ) -> list[StoredText]:
        """Read texts that contain `having` and not `lacking`, by row key, after the key `after`."""
        ...

    async def replace_texts(self, column: EncryptedColumn, changes: Sequence[TextChange]) -> int:
        """Replace texts that are still unchanged. Returns the number replaced."""
        ...

    async def list_blobs(self, after: BlobName | None, limit: int) -> list[BlobName]:
        """List blobs that are not being removed, in order."""
        ...

    async def has_blob(self, blob: BlobName) -> bool:
        """Return whether a blob exists and is not being removed.

        True also for an unowned blob that a job has taken over since.
        """
        ...
