"""The rekey part of the PostgreSQL store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coatcheck.model.payload import BlobName
from coatcheck.store.postgres.database.pool import Database
from coatcheck.store.postgres.database.statements import Statements, for_schema
from coatcheck.store.rekey import COMMON, EncryptedColumn, RowKey, StoredText, TextChange


class PostgresRekey:
    """The verbs on encrypted texts."""

    def __init__(self, database: Database, sql: Statements) -> None:
        self._database = database
        self._sql = sql

    columns = (
        EncryptedColumn("jobs", ("tenant", "id"), "input"),
        EncryptedColumn("jobs", ("tenant", "id"), "result"),
        *COMMON,
    )

    async def find_texts(
        self, column: EncryptedColumn, having: str, lacking: str, after: RowKey | None, limit: int
    ) -> list[StoredText]:
        """Read texts that contain one string and not another."""
        key = ", ".join(column.key)
        marks = ", ".join(f"${number}" for number in range(4, 4 + len(column.key)))
        behind = "" if after is None else f"AND ({key}) > ({marks})"
        # Table and column names are constants: see `columns`.
        statement = (
            f"SELECT {', '.join((*column.key, column.column, *column.beside))} "  # noqa: S608
            f"FROM coatcheck.{column.table} "
            f"WHERE strpos({column.column}, $1) > 0 AND strpos({column.column}, $2) = 0 {behind} "
            f"ORDER BY {key} LIMIT $3"
        )
        values = (having, lacking, limit, *(after or ()))
        rows = await self._run("fetch", statement, *values)
        width = len(column.key)
        return [StoredText(row[:width], row[width], row[width + 1 :]) for row in map(tuple, rows)]

    async def replace_texts(self, column: EncryptedColumn, changes: Sequence[TextChange]) -> int:
        """Replace texts that are still unchanged, one by one, which avoids deadlocks."""
        this_row = " AND ".join(f"{name} = ${number}" for number, name in enumerate(column.key, 3))
        statement = (
            f"UPDATE coatcheck.{column.table} SET {column.column} = $1 "  # noqa: S608
            f"WHERE {this_row} AND {column.column} = $2"
        )
        written = 0
        for change in changes:
            told = await self._run("execute", statement, change.new, change.old, *change.key)
            written += told == "UPDATE 1"
        return written

    async def list_blobs(self, after: BlobName | None, limit: int) -> list[BlobName]:
        """List blobs that are not being removed."""
        rows = await self._run("fetch", self._sql.blobs_after, *(after or ("", "", "")), limit)
        return [BlobName(*row) for row in rows]

    async def has_blob(self, blob: BlobName) -> bool:
        """Return whether a blob exists and is not being removed."""
        return bool(await self._run("fetchval", self._sql.has_blob, *blob))

    async def _run(self, how: str, statement: str, *values: Any) -> Any:
        text = for_schema(statement, self._sql.schema)
        return await self._database.run(
            lambda db: getattr(db, how)(text, *values), transaction=False
        )
