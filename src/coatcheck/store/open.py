"""From a database URL to a store: the one place that knows which stores there are."""

from __future__ import annotations

from pathlib import Path

from coatcheck.errors import ConfigurationError
from coatcheck.store.sqlite.store import SQLiteStore


def store_for(url: str, *, poll_s: float = 1.0) -> SQLiteStore:
    """Return the store a URL names, not yet opened.

    `sqlite:///jobs.db` is relative to the working folder, `sqlite:////var/lib/jobs.db` absolute.
    """
    scheme, separator, rest = url.partition("://")
    if separator and scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        return SQLiteStore(Path(rest[1:]), poll_s=poll_s)
    hint = "write sqlite:///path/to/jobs.db (three slashes: relative, four: absolute)"
    # Nothing of the URL but its scheme is shown: the rest may hold a password anywhere.
    shown = f"{scheme}://…" if separator and scheme.isalnum() else "this"
    raise ConfigurationError(f"{shown} is not a database this can open; {hint}")
