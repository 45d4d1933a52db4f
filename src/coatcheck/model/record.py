"""Small documents that are not jobs: a surface's definitions, a cache entry, a setting."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON document, addressed by tenant, collection and key.

    `version` starts at 1 and goes up with every write; a writer that names the version it read
    is refused when somebody else wrote in between.
    """

    tenant: str
    collection: str
    key: str
    value: str
    version: int
    updated_at: int
    expires_at: int | None = None
