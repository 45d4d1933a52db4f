"""An input, a result, of a job or a step, or what comes with an event as it is kept: a JSON text,
or the name of a blob that holds it.

Up to `INLINE_BYTES` a payload is the JSON text itself. A larger one is written to the blob store
first, and what is kept in its place is a reference: `blob:<key> <size> <sha256>`. No JSON text
begins like that, so nobody can hand in something that is taken for a reference, and whoever meets a
payload tells the two apart by its first letter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

INLINE_BYTES = 64 * 1024

_PREFIX = "blob:"


class BlobName(NamedTuple):
    """A blob of a job: whose it is, and its key in the blob store."""

    tenant: str
    job_id: str
    key: str


# Who owns the blob of an upload that no job has taken over yet.
NOBODY = ""


class BlobReference(NamedTuple):
    """What is kept in place of a large payload."""

    key: str
    size: int
    sha256: str


def fits_inline(text: str) -> bool:
    """Tell whether a payload is kept as it is."""
    if len(text) > INLINE_BYTES:
        return False
    return text.isascii() or len(text) * 4 <= INLINE_BYTES or len(text.encode()) <= INLINE_BYTES


def is_reference(payload: str) -> bool:
    """Tell whether a payload is elsewhere."""
    return payload.startswith(_PREFIX)


def write_reference(reference: BlobReference) -> str:
    """Write a reference as it is kept."""
    return f"{_PREFIX}{reference.key} {reference.size} {reference.sha256}"


def read_reference(payload: str) -> BlobReference:
    """Read what `write_reference` wrote."""
    key, size, sha256 = payload.removeprefix(_PREFIX).split(" ")
    return BlobReference(key, int(size), sha256)


def is_same(one: str, other: str) -> bool:
    """Tell whether two payloads have the same content, as far as their texts or hashes say."""
    if is_reference(one) and is_reference(other):
        return read_reference(one)[1:] == read_reference(other)[1:]
    return one == other


def blobs_in(payloads: Iterable[tuple[str, str, str]]) -> list[BlobName]:
    """Return the blobs that payloads, each with its tenant and job, refer to."""
    return [
        BlobName(tenant, job_id, read_reference(payload).key)
        for tenant, job_id, payload in payloads
        if is_reference(payload)
    ]
