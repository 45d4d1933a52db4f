"""The rekey part of the SQLite store."""

from __future__ import annotations

from collections.abc import Sequence

from coatcheck.model.payload import BlobName
from coatcheck.store.rekey import COMMON, EncryptedColumn, RowKey, StoredText, TextChange
from coatcheck.store.sqlite.database.reader import Reader
from coatcheck.store.sqlite.database.statements import SQL
from coatcheck.store.sqlite.database.transaction import Transaction, Urgency
from coatcheck.store.sqlite.database.writer import Writer


class SQLiteRekey:
    """The verbs on encrypted texts."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    columns = (EncryptedColumn("payloads", ("tenant", "job_id", "role"), "data"), *COMMON)

    async def find_texts(
        self, column: EncryptedColumn, having: str, lacking: str, after: RowKey | None, limit: int
    ) -> list[StoredText]:
        """Read texts that contain one string and not another."""
        key = ", ".join(column.key)
        marks = ", ".join("?" * len(column.key))
        behind = "" if after is None else f"AND ({key}) > ({marks})"
        # Table and column names are constants: see `columns`.
        statement = (
            f"SELECT {', '.join((*column.key, column.column, *column.beside))} FROM {column.table} "  # noqa: S608
            f"WHERE instr({column.column}, ?) > 0 AND instr({column.column}, ?) = 0 {behind} "
            f"ORDER BY {key} LIMIT ?"
        )
        values = (having, lacking, *(after or ()), limit)
        rows = await self._reader.all(statement, values)
        width = len(column.key)
        return [StoredText(row[:width], row[width], row[width + 1 :]) for row in rows]

    async def replace_texts(self, column: EncryptedColumn, changes: Sequence[TextChange]) -> int:
        """Replace texts that are still unchanged."""
        this_row = " AND ".join(f"{name} = ?" for name in column.key)
        statement = (
            f"UPDATE {column.table} SET {column.column} = ? "  # noqa: S608
            f"WHERE {this_row} AND {column.column} = ?"
        )

        def replace(tx: Transaction) -> int:
            written = 0
            for change in changes:
                tx.execute(statement, (change.new, *change.key, change.old))
                written += tx.changed()
            if written:
                tx.execute(SQL.left_behind, (written,))  # the old texts are still in the log
            return written

        return await self._writer.write(replace, Urgency.BULK)

    async def list_blobs(self, after: BlobName | None, limit: int) -> list[BlobName]:
        """List blobs that are not being removed."""
        values = (*(after or ("", "", "")), limit)
        return [BlobName(*row) for row in await self._reader.all(SQL.blobs_after, values)]

    async def has_blob(self, blob: BlobName) -> bool:
        """Return whether a blob exists and is not being removed."""
        [[found]] = await self._reader.all(SQL.has_blob, blob)
        return bool(found)
