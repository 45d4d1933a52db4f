"""Payloads as they are stored: inputs, results of jobs and steps, and the data of events.

Up to `INLINE_BYTES` a payload is stored as its JSON text. A larger one is written to the blob store
first, and a reference takes its place: `blob:<key> <size> <sha256>`. No JSON text starts like that,
so no client can submit a text that is mistaken for a reference.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

INLINE_BYTES = 64 * 1024

_PREFIX = "blob:"


class BlobName(NamedTuple):
    """A blob: its tenant, its job, and its key in the blob store."""

    tenant: str
    job_id: str
    key: str


# The job id of a blob that no job has taken over yet.
NOBODY = ""


class BlobReference(NamedTuple):
    """A reference that is stored in place of a large payload."""

    key: str
    size: int
    sha256: str


def fits_inline(text: str) -> bool:
    """Tell whether a payload is stored as its text."""
    if len(text) > INLINE_BYTES:
        return False
    return text.isascii() or len(text) * 4 <= INLINE_BYTES or len(text.encode()) <= INLINE_BYTES


def is_reference(payload: str) -> bool:
    """Tell whether a payload is a reference to a blob."""
    return payload.startswith(_PREFIX)


def write_reference(reference: BlobReference) -> str:
    """Format a reference for the store."""
    return f"{_PREFIX}{reference.key} {reference.size} {reference.sha256}"


def read_reference(payload: str) -> BlobReference:
    """Parse a reference that `write_reference` formatted."""
    key, size, sha256 = payload.removeprefix(_PREFIX).split(" ")
    return BlobReference(key, int(size), sha256)


def is_same(one: str, other: str) -> bool:
    """Tell whether two payloads have the same content, by their texts or hashes."""
    if is_reference(one) and is_reference(other):
        return read_reference(one)[1:] == read_reference(other)[1:]
    return one == other


def blobs_in(payloads: Iterable[tuple[str, str, str]]) -> list[BlobName]:
    """Return the blobs that payloads refer to; each comes with its tenant and job."""
    return [
        BlobName(tenant, job_id, read_reference(payload).key)
        for tenant, job_id, payload in payloads
        if is_reference(payload)
    ]
