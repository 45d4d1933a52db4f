"""Records: small JSON documents that are not jobs, such as definitions or cache entries."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON document, addressed by tenant, collection and key.

    `version` starts at 1 and rises with every write. A write that names the version it is based
    on is rejected if another write came in between.
    """

    tenant: str
    collection: str
    key: str
    value: str
    version: int
    updated_at: int
    expires_at: int | None = None

    def has_expired(self, now: int) -> bool:
        """Tell whether the document counts as absent."""
        return self.expires_at is not None and self.expires_at <= now

    def over(self, there: Record | None, expected_version: int | None) -> Record | None:
        """Return this document with its next version; None if the expected version does not match.

        An expired document counts as absent, but its versions continue, so no reader can mistake
        the new document for the old one.
        """
        last = 0 if there is None else there.version
        visible = 0 if there is None or there.has_expired(self.updated_at) else last
        if expected_version is not None and expected_version != visible:
            return None
        return replace(self, version=last + 1)
