"""Numbered migrations: `migrations/NNN_name.sql` beside each store, the same numbers in all.

A migration is never edited once released. A database that a newer release has migrated is rejected:
an old process must not write rows it does not understand.
"""

from __future__ import annotations

from importlib.resources.abc import Traversable
from typing import NamedTuple

from coatcheck.errors import SchemaTooNew


class Migration(NamedTuple):
    """One step of the schema."""

    number: int
    name: str
    sql: str


def load_migrations(folder: Traversable) -> list[Migration]:
    """Read the migrations of a store in order. A gap in the numbers is a packaging error."""
    found = []
    for entry in folder.iterdir():
        if entry.name.endswith(".sql"):
            number, _, name = entry.name.removesuffix(".sql").partition("_")
            found.append(Migration(int(number), name, entry.read_text(encoding="utf-8")))
    found.sort()
    numbers = [migration.number for migration in found]
    if numbers != list(range(1, len(found) + 1)):
        raise ValueError(f"the migrations are not numbered from 1 without gaps: {numbers}")
    return found


def pending(migrations: list[Migration], applied: int) -> list[Migration]:
    """Return the migrations to apply. Raises SchemaTooNew if the database is newer."""
    if applied > len(migrations):
        raise SchemaTooNew(
            f"this database is at migration {applied}, and this release knows {len(migrations)}: "
            "a newer Coatcheck has migrated it; upgrade this one"
        )
    return migrations[applied:]
