"""Migrated schemas with nothing in them, which tests use one after the other.

To make one and to drop it again takes PostgreSQL longer than most tests take. So one that a test
has left as it was made, but for its rows, is emptied and lent again; any other is dropped.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from coatcheck.store.postgres.store import PostgresStore

# Beyond this it is dropped, so that nobody has to read past what others have deleted.
LARGE_BYTES = 4_000_000
# Who still holds a lock there has not let go of it: it is not lent again.
PATIENCE_MS = 2_000

_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
# All that statements can change in a schema but its rows: also what was analysed, or written anew.
_SHAPE = """
WITH place AS (SELECT oid, nspacl, xmin FROM pg_namespace WHERE nspname = %(name)s),
parts AS (SELECT pg_class.* FROM pg_class JOIN place ON place.oid = relnamespace)
SELECT (SELECT place::text FROM place),
  (SELECT md5(string_agg(concat_ws(' ', oid, relfilenode, relname, relacl, reloptions), ','
   ORDER BY oid)) FROM parts),
  (SELECT md5(string_agg(concat_ws(' ', attrelid, attnum, a.xmin), ',' ORDER BY attrelid, attnum))
   FROM pg_attribute a WHERE attrelid IN (SELECT oid FROM parts)),
  (SELECT md5(string_agg(concat_ws(' ', i.indexrelid, i.xmin), ',' ORDER BY i.indexrelid))
   FROM pg_index i WHERE indexrelid IN (SELECT oid FROM parts)),
  (SELECT md5(string_agg(concat_ws(' ', c.oid, c.xmin), ',' ORDER BY c.oid))
   FROM pg_constraint c WHERE connamespace = (SELECT oid FROM place)),
  (SELECT md5(string_agg(concat_ws(' ', d.oid, d.xmin), ',' ORDER BY d.oid))
   FROM pg_attrdef d WHERE adrelid IN (SELECT oid FROM parts)),
  (SELECT md5(string_agg(concat_ws(' ', t.oid, t.xmin), ',' ORDER BY t.oid))
   FROM pg_trigger t WHERE tgrelid IN (SELECT oid FROM parts)),
  (SELECT md5(string_agg(concat_ws(' ', p.oid, p.xmin), ',' ORDER BY p.oid))
   FROM pg_proc p WHERE pronamespace = (SELECT oid FROM place)),
  (SELECT count(*) FROM pg_statistic WHERE starelid IN (SELECT oid FROM parts)),
  (SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM parts WHERE relkind = 'r') < %(large)s
"""


@dataclass(frozen=True)
class _Made:
    """A schema as it was made."""

    name: str
    shape: tuple[Any, ...]
    tables: list[str]
    rows: dict[str, str]  # of the tables that have some, as JSON


class Schemas:
    """The schemas of one server, for one process."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._numbers = itertools.count(1)
        self._free: list[_Made] = []
        self._lent: dict[str, _Made] = {}
        # One that stays, unless a test ends it: a new one has to read the whole catalogue first.
        self._connection: psycopg.Connection[Any] | None = None

    def close(self) -> None:
        """Drop all of them."""
        with self._connected() as connection:
            for made in (*self._free, *self._lent.values()):
                _drop(connection, made.name)

    def lend(self) -> str:
        """Return the name of a schema that nobody else uses, migrated and as if new."""
        made = self._free.pop() if self._free else self._make()
        self._lent[made.name] = made
        return made.name

    def take_back(self, name: str) -> None:
        """Empty a schema, or drop it where more was changed than its rows."""
        made = self._lent.pop(name)
        connection = self._connected()
        try:
            emptied = _empty(connection, made)
        except psycopg.errors.LockNotAvailable:
            emptied = False
        if emptied:
            self._free.append(made)
        else:
            _drop(connection, name)

    def _make(self) -> _Made:
        name = f"lent_{os.getpid()}_{next(self._numbers)}"
        store = PostgresStore(self._dsn, schema=name)
        # In a thread of its own: the caller may be within an event loop.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, store.migrate()).result()
        connection = self._connected()
        tables = [str(table) for (table,) in connection.execute(_TABLES, [name])]
        found = {table: _rows(connection, name, table) for table in tables}
        rows = {table: text for table, text in found.items() if text}
        return _Made(name, _shape(connection, name), tables, rows)

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is not None:
            try:
                self._connection.execute("")
            except psycopg.OperationalError:
                self._connection.close()
                self._connection = None
        if self._connection is None:
            self._connection = psycopg.connect(self._dsn, autocommit=True)
        return self._connection


def _empty(connection: psycopg.Connection[Any], made: _Made) -> bool:
    """Bring the rows back that were there at first; false where more than rows has changed."""
    if _shape(connection, made.name) != made.shape:
        return False
    with connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout = {PATIENCE_MS}")
        connection.execute("SET LOCAL session_replication_role = replica")  # no triggers
        tables = [sql.Identifier(made.name, table) for table in made.tables]
        deleting = [sql.SQL("DELETE FROM {}").format(table) for table in tables]
        connection.execute(sql.SQL("; ").join(deleting))
        for name, rows in made.rows.items():
            table = sql.Identifier(made.name, name)
            connection.execute(
                sql.SQL(
                    "INSERT INTO {} SELECT * FROM json_populate_recordset(NULL::{}, %s::json)"
                ).format(table, table),
                [rows],
            )
    return True


def _shape(connection: psycopg.Connection[Any], name: str) -> tuple[Any, ...]:
    found = connection.execute(_SHAPE, {"name": name, "large": LARGE_BYTES}).fetchone()
    assert found is not None
    return tuple(found)


def _rows(connection: psycopg.Connection[Any], schema: str, table: str) -> str:
    query = sql.SQL("SELECT json_agg(row) FROM {} row").format(sql.Identifier(schema, table))
    [found] = connection.execute(query).fetchone() or [None]
    return json.dumps(found) if found else ""


def _drop(connection: psycopg.Connection[Any], name: str) -> None:
    query = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name))
    connection.execute(query)
