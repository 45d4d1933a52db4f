"""The store, looked at without changing it: nothing is created and nothing is migrated."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import apsw

from coatcheck.cli.doctor.findings import Finding, ok, problem, warning
from coatcheck.cli.doctor.state import StoreFacts, read_inside
from coatcheck.crypto.secret_refs import resolve
from coatcheck.errors import CoatcheckError, ConfigurationError, StoreUnavailable
from coatcheck.settings import Settings
from coatcheck.store.open import store_for
from coatcheck.store.shared.migrations import Migration, pending
from coatcheck.store.sqlite.database.connection import connect, translate
from coatcheck.store.sqlite.database.schema import MIGRATIONS, applied_number

AREA = "store"
_WRONG = "correct COATCHECK_DATABASE (--database)"


class StoreView(NamedTuple):
    """What was found out about a store."""

    findings: Sequence[Finding]
    scheme: str = ""
    sqlite_path: Path | None = None
    inside: StoreFacts | None = None
    database_ahead_ms: float | None = None


async def look_at_store(settings: Settings) -> StoreView:
    """Look at the store that the settings name."""
    try:
        store_for(settings)  # says what is wrong with an address
        url = resolve(settings.database)
    except CoatcheckError as error:
        return StoreView([problem(AREA, str(error), _WRONG)])
    scheme = url.partition("://")[0]
    if scheme == "sqlite":
        return await _sqlite(settings, _path_in(url))
    return await _postgres(settings, url)


def _path_in(url: str) -> Path:
    return Path(url.partition("://")[2][1:]).absolute()


async def _sqlite(settings: Settings, path: Path) -> StoreView:
    view = StoreView([], "sqlite", path)
    if (absent := _absent(path)) is not None:
        return view._replace(findings=[absent])
    try:
        missing = _missing(path)
    except apsw.NotADBError:
        said = f"{path} is not a SQLite database, or a damaged one"
        return view._replace(findings=[problem(AREA, said, f"{_WRONG}, or restore a backup")])
    except apsw.Error as error:
        return view._replace(findings=[_trouble(translate(error))])
    except CoatcheckError as error:
        return view._replace(findings=[_trouble(error)])
    if missing:
        return view._replace(findings=[ok(AREA, f"{path} can be read"), _pending(missing)])
    return await _use(settings, view, str(path), len(MIGRATIONS))


def _absent(path: Path) -> Finding | None:
    if path.exists():
        return None
    folder = next(folder for folder in path.parents if folder.exists())
    if not os.access(folder, os.W_OK):
        said = f"{path} is not there, and {folder} cannot be written to"
        return problem(AREA, said, f"{_WRONG}, or the rights of that folder")
    said = f"{path} is not there yet"
    return warning(
        AREA, said, "coatcheck serve or coatcheck migrate makes it; or was another meant?"
    )


def _missing(path: Path) -> list[Migration]:
    connection = connect(path, read_only=True)
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema").get  # noqa: B018 - reads the file
        return pending(MIGRATIONS, applied_number(connection))
    finally:
        connection.close()


async def _postgres(settings: Settings, dsn: str) -> StoreView:
    # Optional parts: `store_for` has succeeded, so the driver is there.
    from coatcheck.cli.doctor.postgres import look_at_postgres  # noqa: PLC0415

    view = StoreView([], "postgresql")
    try:
        seen = await look_at_postgres(dsn, settings.schema)
    except CoatcheckError as error:
        return view._replace(findings=[_trouble(error)])
    view = view._replace(database_ahead_ms=seen.ahead_ms)
    place = f"PostgreSQL {seen.version}, schema {settings.schema!r}"
    if seen.missing:
        return view._replace(findings=[ok(AREA, f"{place} can be reached"), _pending(seen.missing)])
    return await _use(settings, view, place, seen.known)


async def _use(settings: Settings, view: StoreView, place: str, migrations: int) -> StoreView:
    """Open a store that has nothing to migrate, write to it, and read what it knows."""
    store = store_for(settings)
    began = time.monotonic()
    try:
        await store.open()
        try:
            await store.ping()
            inside = await read_inside(store)
        finally:
            await store.close()
    except CoatcheckError as error:
        return view._replace(findings=[_trouble(error)])
    except OSError as error:
        said = f"{place} cannot be opened: {error.strerror or type(error).__name__}"
        advice = "look as the user that the server runs as, and at the rights of its folder"
        return view._replace(findings=[problem(AREA, said, advice)])
    took = (time.monotonic() - began) * 1000
    findings = [
        ok(AREA, f"{place} takes writes (opened, written and read in {took:.0f} ms)"),
        ok("migrations", f"all {migrations} are applied"),
    ]
    return view._replace(findings=findings, inside=inside)


def _pending(missing: Sequence[Migration]) -> Finding:
    names = ", ".join(f"{migration.number:03d} {migration.name}" for migration in missing)
    return problem(
        "migrations",
        f"not applied yet: {names}",
        "run `coatcheck migrate`, or start the server of this release",
    )


def _trouble(error: Exception) -> Finding:
    if isinstance(error, StoreUnavailable):
        return problem(AREA, str(error), "see that the database is up, writable and has room")
    if isinstance(error, ConfigurationError):
        return problem(AREA, str(error), _WRONG)
    return problem(AREA, str(error), "the database is of another release, or damaged")
