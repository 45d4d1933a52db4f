"""The named statements of this store."""

from __future__ import annotations

from importlib.resources import files

from coatcheck.store.shared.queries import Queries

SQL = Queries(files("coatcheck.store.sqlite") / "queries.sql")
