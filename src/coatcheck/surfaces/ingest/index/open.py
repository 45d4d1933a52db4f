"""Open the index that belongs to a job store."""

from __future__ import annotations

from pathlib import Path

from coatcheck.crypto.secret_refs import resolve
from coatcheck.errors import ConfigurationError
from coatcheck.settings import Settings
from coatcheck.surfaces.ingest.index.base import Index


def open_index(settings: Settings) -> Index:
    """Return the index of these settings' job store; `async with` opens it."""
    url = resolve(settings.database)
    scheme, _, rest = url.partition("://")
    if scheme in ("postgresql", "postgres"):
        return _postgres(url, settings)
    if scheme == "sqlite" and len(rest) > 1:
        return _sqlite(search_file(Path(rest[1:])))
    raise ConfigurationError("the search index needs a job store on SQLite or PostgreSQL")


def search_file(jobs: Path) -> Path:
    """Return the path of the index that belongs to a job database."""
    return jobs.with_name(f"{jobs.stem}-search.db")


def _sqlite(file: Path) -> Index:
    try:
        # Both are optional: only document ingest needs their libraries.
        from coatcheck.surfaces.ingest.index.sqlite.index import SQLiteIndex  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    return SQLiteIndex(file)


def _postgres(url: str, settings: Settings) -> Index:
    try:
        from coatcheck.surfaces.ingest.index.postgres.index import PostgresIndex  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    return PostgresIndex(url, schema=settings.schema, connections=settings.connections)


def _missing(error: ModuleNotFoundError) -> ConfigurationError:
    return ConfigurationError(
        f"the search index needs {error.name}: run pip install 'coatcheck[ingest]'"
    )
