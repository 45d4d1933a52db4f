"""The stores that faults are injected into, and how the processes of a test find them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from coatcheck.settings import Settings
from coatcheck.store.base import Store
from coatcheck.store.open import store_for
from coatcheck.testing.checker.dump import Tables, dump_postgres, dump_sqlite

# Where the receivers of tests are, which calls may go to.
HERE = "127.0.0.1"
LEASE_S = 1.0
SWEEP_S = 0.2


@dataclass(frozen=True)
class Place:
    """A store, empty at first, and a folder for all that a test writes beside it."""

    name: str
    folder: Path
    database: str
    schema: str = "coatcheck"
    more: dict[str, object] = field(default_factory=dict)

    def settings(self, **changes: object) -> dict[str, object]:
        """Return the settings of a process at this place."""
        return {
            "database": self.database,
            "schema": self.schema,
            "connections": 4,
            "concurrency": 4,
            "processes": 1,
            "lease_s": LEASE_S,
            "sweep_s": SWEEP_S,
            "drain_s": 5.0,
            "grace_s": 2.0,
            "log_format": "json",
            "log_level": "warning",
            "egress_allow": HERE,
            **self.more,
            **changes,
        }

    def store(self) -> Store:
        """Return the store, not yet opened."""
        return store_for(Settings(**self.settings()))  # type: ignore[arg-type]  # by name

    async def dump(self) -> Tables:
        """Read every row of every table."""
        if self.name == "sqlite":
            return dump_sqlite(self.folder / "jobs.db")
        return await dump_postgres(self.database, self.schema)


def sqlite_place(folder: Path) -> Place:
    return Place("sqlite", folder, f"sqlite:///{folder}/jobs.db")


def postgres_place(folder: Path, dsn: str, schema: str) -> Place:
    return Place("postgres", folder, dsn, schema, {"pepper": "p" * 32})
